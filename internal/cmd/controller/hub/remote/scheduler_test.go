package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errUnreachable = errors.New("the cluster does not answer")

// testClock is a clock that a test moves.
type testClock struct{ now time.Time }

func (c *testClock) read() time.Time { return c.now }

func reachable(context.Context, []byte, time.Duration, bool) error { return nil }

// runNext runs the next task of a pool. It fails the test if there is none.
func runNext(t *testing.T, p *pool) {
	t.Helper()
	if p.tasks.Len() != 1 {
		t.Fatalf("%d tasks are queued, want 1", p.tasks.Len())
	}
	next := p.tasks.Pop()
	p.tasks.Done(next)
	next.do(t.Context(), func() {})
}

func TestSubmit_ChoosesTheWorkers(t *testing.T) {
	tests := map[string]struct {
		job        Job
		kubeconfig string
		unreadable bool
		takes      time.Duration
		reach      error
		connect    time.Duration // 0: not probed
		slow, fast bool
	}{
		"first time: works at once":                       {kubeconfig: "k", connect: firstConnect, fast: true},
		"slow answer: uses the workers for slow ones":     {kubeconfig: "k", connect: firstConnect, takes: 10 * time.Second, slow: true},
		"answer in time: works at once":                   {kubeconfig: "k", connect: firstConnect, takes: time.Second, fast: true},
		"no answer: ends":                                 {kubeconfig: "k", connect: firstConnect, reach: errUnreachable},
		"can wait: uses the workers for slow ones":        {job: Job{CanWait: true}, kubeconfig: "k", connect: firstConnect, slow: true},
		"no answer last time: has more time, and workers": {job: Job{Retry: true}, kubeconfig: "k", connect: laterConnect, slow: true},
		"only a probe: needs no worker":                   {job: Job{ProbeOnly: true}, kubeconfig: "k", connect: firstConnect},
		"no kubeconfig: needs no probe and no worker":     {},
		"unreadable kubeconfig: ends":                     {unreadable: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := &testClock{now: time.Unix(0, 0)}
			var connects []time.Duration
			s := NewScheduler(clock.read, func(_ context.Context, kubeconfig []byte, connect time.Duration, local bool) error {
				if string(kubeconfig) != test.kubeconfig || local != test.job.Local {
					t.Errorf("probed with %q, local %v", kubeconfig, local)
				}
				connects = append(connects, connect)
				clock.now = clock.now.Add(test.takes)
				return test.reach
			})
			job, done := test.job, 0
			want := test.reach
			if test.unreadable {
				want = errors.New("etcd is gone")
			}
			job.Kubeconfig = func(context.Context) ([]byte, error) {
				if test.unreadable {
					return nil, want
				}
				return []byte(test.kubeconfig), nil
			}
			job.Do = func(_ context.Context, kubeconfig []byte, err error) {
				if done++; !errors.Is(err, want) || string(kubeconfig) != test.kubeconfig {
					t.Errorf("done with %q, error %v", kubeconfig, err)
				}
			}
			s.Submit(job)
			if job.Retry {
				runNext(t, s.retries)
			} else {
				runNext(t, s.probes)
			}
			if test.connect == 0 && len(connects) != 0 || test.connect != 0 && (len(connects) != 1 || connects[0] != test.connect) {
				t.Errorf("probed with the time limits %v", connects)
			}
			switch {
			case test.fast:
				runNext(t, s.workers)
			case test.slow:
				runNext(t, s.slowWorkers)
			}
			if done != 1 || s.workers.tasks.Len()+s.slowWorkers.tasks.Len() != 0 {
				t.Errorf("done %d times", done)
			}
		})
	}
}

func TestSlowClusters_LeaveWorkersToOthers(t *testing.T) {
	s := NewScheduler((&testClock{}).read, reachable)
	go s.Run(t.Context())
	kubeconfig := func(context.Context) ([]byte, error) { return []byte("k"), nil }
	for range slowWorkers + workers {
		s.Submit(Job{Kubeconfig: kubeconfig, CanWait: true, Do: func(ctx context.Context, _ []byte, _ error) { <-ctx.Done() }})
	}
	done := make(chan struct{})
	s.Submit(Job{Kubeconfig: kubeconfig, Do: func(context.Context, []byte, error) { close(done) }})
	<-done
}

// Servers of a tenant may answer a probe at once, and keep each of the other requests waiting.
func TestClustersOfOneWorkspace_LeaveWorkersToOthers(t *testing.T) {
	for name, canWait := range map[string]bool{"import": false, "inspection": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewScheduler((&testClock{}).read, reachable)
				ctx, end := context.WithCancel(t.Context())
				go s.Run(ctx)
				var hostile, others atomic.Int32
				goOn := make(chan struct{})
				submit := func(workspace string, do func()) {
					s.Submit(Job{
						Workspace: workspace, CanWait: canWait, Kubeconfig: func(context.Context) ([]byte, error) { return []byte("k"), nil },
						Do: func(context.Context, []byte, error) { do() },
					})
				}
				for range 2 * workers {
					submit("hostile", func() { hostile.Add(1); <-goOn })
				}
				synctest.Wait()
				submit("other", func() { others.Add(1) })
				synctest.Wait()
				if others.Load() != 1 {
					t.Errorf("the cluster of another workspace waits for %d", hostile.Load())
				}
				close(goOn)
				synctest.Wait()
				if hostile.Load() != 2*workers {
					t.Errorf("%d clusters had their turn, want %d", hostile.Load(), 2*workers)
				}
				end()
			})
		})
	}
}

func TestFailedProbes_LeaveTheirPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probed atomic.Int32
		s := NewScheduler((&testClock{}).read, func(context.Context, []byte, time.Duration, bool) error {
			probed.Add(1)
			return errUnreachable
		})
		ctx, end := context.WithCancel(t.Context())
		go s.Run(ctx)
		for range probes + 1 {
			s.Submit(Job{
				Kubeconfig: func(context.Context) ([]byte, error) { return []byte("k"), nil },
				Do:         func(ctx context.Context, _ []byte, _ error) { <-ctx.Done() }, // as a slow request to the hub
			})
		}
		synctest.Wait()
		if got := probed.Load(); got != probes+1 {
			t.Errorf("%d clusters probed", got)
		}
		end()
	})
}

func TestProbesAtOnce_AreAtMostAThousand(t *testing.T) {
	if probes+retries > 1000 {
		t.Errorf("%d probes at once", probes+retries)
	}
}

func TestPool_RunsNoMoreTasksThanItsLimit(t *testing.T) {
	const limit, count = 3, 20
	p := newPool(limit)
	var running, most atomic.Int32
	end, ended := make(chan struct{}), make(chan struct{})
	for range count {
		p.add("", func(context.Context) {
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			<-end
			running.Add(-1)
			ended <- struct{}{}
		})
	}
	go p.run(t.Context())
	for range count {
		end <- struct{}{}
		<-ended
	}
	if most.Load() > limit {
		t.Errorf("%d tasks ran at once", most.Load())
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	s := NewScheduler((&testClock{}).read, func(ctx context.Context, _ []byte, _ time.Duration, _ bool) error {
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, end := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	s.Submit(Job{
		Kubeconfig: func(context.Context) ([]byte, error) { return []byte("k"), nil },
		Do:         func(_ context.Context, _ []byte, err error) { stopped <- err },
	})
	running := make(chan struct{})
	go func() { s.Run(ctx); close(running) }()
	end()
	<-running
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
