package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

func key(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// passes notes when each pass over a key began, since the first thing that happened.
type passes struct {
	began time.Time

	mu  sync.Mutex
	all []string
}

func (p *passes) note(k types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, k.Name+" "+time.Since(p.began).String())
}

func (p *passes) expect(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.all); diff != "" {
		t.Errorf("passes (-want +got):\n%s", diff)
	}
}

// run works a queue off in the bubble's time until the test ends.
func run(t *testing.T, o Options, handle func(*Queue, types.NamespacedName) error) (*Queue, *passes) {
	t.Helper()
	p := &passes{began: time.Now()}
	o.Log = slog.New(slog.DiscardHandler)
	var q *Queue
	q = New(o, func(_ context.Context, k types.NamespacedName) error {
		p.note(k)
		if handle == nil {
			return nil
		}
		return handle(q, k)
	})
	go q.Run(t.Context())
	return q, p
}

func TestSpacing_FirstChangeIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := run(t, Options{Spacing: 100 * time.Millisecond}, nil)
		for range 5 {
			q.Add(key("a"))
		}
		q.Add(key("b"))
		synctest.Wait()
		<-time.After(10 * time.Millisecond)
		for range 5 {
			q.Add(key("a"))
		}
		<-time.After(time.Second)
		q.Add(key("a"))
		<-time.After(time.Second)
		p.sorted()
		p.expect(t, "a 0s", "a 1.01s", "a 100ms", "b 0s")
	})
}

// sorted makes the order of different keys, which work at a time, no matter.
func (p *passes) sorted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.all)
}

func TestNoSpacing_EveryChangeIsAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := run(t, Options{}, nil)
		q.Add(key("a"))
		synctest.Wait()
		q.Add(key("a"))
		synctest.Wait()
		p.expect(t, "a 0s", "a 0s")
	})
}

func TestChangeDuringAPass_CausesAnotherPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		q, p := run(t, Options{Workers: 3}, func(q *Queue, k types.NamespacedName) error {
			if first {
				first = false
				q.Add(k)
				<-time.After(time.Second)
			}
			return nil
		})
		q.Add(key("a"))
		<-time.After(time.Minute)
		p.expect(t, "a 0s", "a 1s")
	})
}

func TestFailedPass_IsRetriedWithBackoff(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("x"))
	for name, failure := range map[string]error{"a conflict": conflict, "anything": errors.New("boom")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failures := 3
				q, p := run(t, Options{}, func(*Queue, types.NamespacedName) error {
					if failures--; failures >= 0 {
						return failure
					}
					return nil
				})
				q.Add(key("a"))
				<-time.After(time.Minute)
				q.Add(key("a"))
				synctest.Wait()
				p.expect(t, "a 0s", "a 10ms", "a 30ms", "a 70ms", "a 1m0s")
			})
		})
	}
}

func TestAddAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := run(t, Options{Spacing: time.Hour}, nil)
		q.AddAfter(key("a"), time.Minute)
		<-time.After(2 * time.Minute)
		p.expect(t, "a 1m0s")
	})
}

// TestBehind has more due than there are workers.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		q := New(Options{Workers: 2, Log: slog.New(slog.DiscardHandler)}, func(context.Context, types.NamespacedName) error {
			<-goOn
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go q.Run(ctx)
		expect := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := q.Behind(); got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		expect("with nothing to do", false)
		q.AddAfter(key("later"), time.Hour)
		q.AddAfter(key("a"), 0)
		q.AddAfter(key("b"), 0)
		expect("with as many as there are workers", false)
		q.AddAfter(key("c"), 0)
		expect("with one more", true)
		goOn <- struct{}{}
		expect("when that has begun", false)
		close(goOn)
		expect("in the end", false)
	})
}

func TestRun_WaitsForSyncedCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &passes{began: time.Now()}
		var full atomic.Bool
		q := New(Options{Log: slog.New(slog.DiscardHandler)}, func(_ context.Context, k types.NamespacedName) error {
			p.note(k)
			return nil
		})
		q.Add(key("a"))
		go q.Run(t.Context(), full.Load)
		<-time.After(time.Second)
		p.expect(t)
		full.Store(true)
		<-time.After(time.Second)
		synctest.Wait()
		if len(p.all) != 1 {
			t.Errorf("passes = %v, want one", p.all)
		}
	})
}

func TestRun_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, synced := range []cache.InformerSynced{func() bool { return true }, func() bool { return false }} {
			ctx, cancel := context.WithCancel(t.Context())
			q := New(Options{Log: slog.New(slog.DiscardHandler)}, func(context.Context, types.NamespacedName) error {
				cancel()
				return errors.New("late")
			})
			q.Add(key("a"))
			if !synced() {
				cancel()
			}
			q.Run(ctx, synced)
			if ctx.Err() == nil {
				t.Error("Run returned before its context ended")
			}
			cancel()
		}
	})
}

func TestSettling_FirstChangeWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := run(t, Options{Spacing: 100 * time.Millisecond, Settling: 200 * time.Millisecond}, nil)
		for range 3 { // at 0, 80 and 160 ms
			q.Add(key("a"))
			<-time.After(80 * time.Millisecond)
		}
		<-time.After(time.Second)
		q.Add(key("a")) // at 1.24 s
		<-time.After(time.Second)
		p.expect(t, "a 200ms", "a 1.44s")
	})
}

func TestAddNow_DoesNotWaitForTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := run(t, Options{Spacing: 500 * time.Millisecond, Settling: 500 * time.Millisecond}, nil)
		<-time.After(100 * time.Millisecond)
		q.AddNow(key("a")) // at 100 ms
		synctest.Wait()
		for range 4 { // at 200 to 500 ms, within the window: one more pass
			<-time.After(100 * time.Millisecond)
			q.AddNow(key("a"))
		}
		<-time.After(time.Second)
		q.AddNow(key("a")) // at 1.5 s, after a quiet period
		<-time.After(time.Second)
		p.expect(t, "a 100ms", "a 600ms", "a 1.5s")
	})
}

// A change that was made before a process begins to work does not wait for all keys that need nothing.
func TestChangedKeys_AreHandledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &passes{began: time.Now()}
		changed := map[string]bool{"c": true, "e": true}
		q := New(Options{Workers: 1, Log: slog.New(slog.DiscardHandler), First: func(k types.NamespacedName) bool { return changed[k.Name] }},
			func(_ context.Context, k types.NamespacedName) error {
				p.note(k)
				return nil
			})
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			q.Add(key(name))
		}
		go q.Run(t.Context(), func() bool { return true })
		synctest.Wait()
		var order string
		for _, pass := range p.all {
			order += pass[:1]
		}
		if order != "ceabd" {
			t.Errorf("order %q", order)
		}
	})
}

// One tenant may have any number of Bundles whose passes take long.
func TestKeysOfOneNamespace_LeaveWorkersToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(_ *Queue, k types.NamespacedName) error {
			if k.Namespace == "slow" {
				<-time.After(time.Minute)
			}
			return nil
		}
		q, p := run(t, Options{Workers: 3, PerWorkspace: 2}, slow)
		for _, name := range []string{"a", "b", "c", "d", "c"} {
			q.Add(types.NamespacedName{Namespace: "slow", Name: name})
		}
		<-time.After(time.Second)
		q.Add(types.NamespacedName{Namespace: "other", Name: "o"})
		q.Add(types.NamespacedName{Namespace: "slow", Name: "d"}) // which waits already
		<-time.After(time.Hour)
		p.sorted()
		p.expect(t, "a 0s", "b 0s", "c 1m0s", "d 1m0s", "o 1s")
	})
}

// Keys come before the cache is synced that tells their workspace.
func TestKeysFromBeforeTheSync_AreSharedByTheirWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var synced atomic.Bool
		workspace := func(k types.NamespacedName) string {
			if !synced.Load() {
				return k.Name
			}
			return "one"
		}
		p := &passes{began: time.Now()}
		q := New(Options{Workers: 3, PerWorkspace: 2, Workspace: workspace, Log: slog.New(slog.DiscardHandler)}, func(_ context.Context, k types.NamespacedName) error {
			p.note(k)
			<-time.After(time.Minute)
			return nil
		})
		for _, name := range []string{"a", "b", "c"} {
			q.Add(key(name))
		}
		synced.Store(true)
		go q.Run(t.Context(), synced.Load)
		<-time.After(time.Hour)
		p.sorted()
		p.expect(t, "a 0s", "b 0s", "c 1m0s")
	})
}

// depth counts as client-go's metric workqueue_depth does.
type depth struct{ atomic.Int64 }

func (d *depth) Inc() { d.Add(1) }
func (d *depth) Dec() { d.Add(-1) }

// depths provides that metric. The others have no effect.
type depths struct {
	workqueue.MetricsProvider
	depth depth
}

type none struct{}

func (none) Inc()            {}
func (none) Set(float64)     {}
func (none) Observe(float64) {}

func (d *depths) NewDepthMetric(string) workqueue.GaugeMetric          { return &d.depth }
func (*depths) NewAddsMetric(string) workqueue.CounterMetric           { return none{} }
func (*depths) NewLatencyMetric(string) workqueue.HistogramMetric      { return none{} }
func (*depths) NewWorkDurationMetric(string) workqueue.HistogramMetric { return none{} }
func (*depths) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return none{}
}
func (*depths) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return none{}
}
func (*depths) NewRetriesMetric(string) workqueue.CounterMetric { return none{} }

func TestDepth_CountsKeysThatWaitForTheirShare(t *testing.T) {
	provider := &depths{}
	workqueue.SetProvider(provider)
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		q := New(Options{Name: "depth", Workers: 3, PerWorkspace: 2, Log: slog.New(slog.DiscardHandler)}, func(context.Context, types.NamespacedName) error {
			<-time.After(time.Minute)
			return nil
		})
		go q.Run(ctx)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			q.Add(key(name))
		}
		<-time.After(time.Second)
		if got := provider.depth.Load(); got != 3 || !q.Behind() {
			t.Errorf("depth %d, want 3; behind %t", got, q.Behind())
		}
		<-time.After(time.Hour)
		if got := provider.depth.Load(); got != 0 || q.Behind() {
			t.Errorf("depth %d in the end; behind %t", got, q.Behind())
		}
		end()
	})
}
