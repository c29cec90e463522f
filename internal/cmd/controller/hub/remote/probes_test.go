package remote

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const key = "ws/c1"

func cluster(uid types.UID) *fleet.Cluster {
	return &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", UID: uid},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: "kc"},
	}
}

// world is what Probes see. The fields can be changed between probes.
type world struct {
	*Probes

	kubeconfig string
	unreadable error
	reach      error
	enqueued   int
}

func newWorld() *world {
	w := &world{kubeconfig: "k"}
	s := NewScheduler(func() time.Time { return time.Unix(0, 0) }, func(context.Context, []byte, time.Duration, bool) error { return w.reach })
	w.Probes = NewProbes(s, Options{
		Kubeconfig: func(context.Context, *fleet.Cluster) ([]byte, error) {
			if w.kubeconfig == "" {
				return nil, w.unreadable
			}
			return []byte(w.kubeconfig), w.unreadable
		},
		IsLocal: func(c *fleet.Cluster) bool { return c.Name == "local" },
		Enqueue: func(string, string) { w.enqueued++ },
	})
	return w
}

// turn runs the next turn of an unreachable cluster and returns a channel that is closed at its end.
func (w *world) turn(t *testing.T) <-chan struct{} {
	t.Helper()
	next := w.scheduler.turns.tasks.Pop()
	w.scheduler.turns.tasks.Done(next)
	before, ended := w.enqueued, make(chan struct{})
	entered := make(chan struct{})
	enqueue := w.Enqueue
	w.Enqueue = func(namespace, name string) { enqueue(namespace, name); close(entered) }
	go func() { next.do(t.Context(), func() {}); close(ended) }()
	<-entered
	w.Enqueue = enqueue
	if w.enqueued != before+1 {
		t.Errorf("enqueued %d times", w.enqueued-before)
	}
	return ended
}

func TestProbes(t *testing.T) {
	t.Run("a cluster that answers: result is given once", func(t *testing.T) {
		w := newWorld()
		for range 2 {
			if !w.Start(cluster("u")) || !w.IsPending(key) {
				t.Error("it is not pending")
			}
		}
		if wasProbed, _ := w.Result(key); wasProbed {
			t.Error("it has a result before its probe")
		}
		runNext(t, w.scheduler.probes)
		if w.Start(cluster("u")) || w.IsPending(key) || w.enqueued != 1 {
			t.Errorf("it is pending, or was enqueued %d times", w.enqueued)
		}
		if wasProbed, err := w.Result(key); !wasProbed || err != nil {
			t.Errorf("probed %v, error %v", wasProbed, err)
		}
		if wasProbed, _ := w.Result(key); wasProbed {
			t.Error("it has its result twice")
		}
	})
	t.Run("a cluster that does not answer: waits for its turn, which ends when it was reconciled or deleted", func(t *testing.T) {
		for _, end := range []func(*world){func(w *world) { w.Reconciled(key) }, func(w *world) { w.Forget(key) }} {
			w := newWorld()
			w.reach = errUnreachable
			w.Start(cluster("u"))
			runNext(t, w.scheduler.probes)
			if !w.IsPending(key) || w.enqueued != 0 {
				t.Errorf("it does not wait, or was enqueued %d times", w.enqueued)
			}
			ended := w.turn(t)
			if wasProbed, err := w.Result(key); !wasProbed || !errors.Is(err, errUnreachable) {
				t.Errorf("probed %v, error %v", wasProbed, err)
			}
			end(w)
			<-ended
			w.Reconciled(key) // again
		}
	})
	t.Run("a Cluster without a kubeconfig, or whose Secret cannot be read: has no result", func(t *testing.T) {
		for _, failure := range []error{nil, errors.New("etcd is gone")} {
			w := newWorld()
			w.kubeconfig, w.unreadable = "", failure
			w.Start(cluster("u"))
			runNext(t, w.scheduler.probes)
			if wasProbed, err := w.Result(key); wasProbed || err != nil || w.IsPending(key) || w.enqueued != 1 {
				t.Errorf("probed %v, error %v, enqueued %d times", wasProbed, err, w.enqueued)
			}
		}
	})
	t.Run("another Cluster of the same name: is probed again", func(t *testing.T) {
		w := newWorld()
		w.reach = errUnreachable
		w.Start(cluster("u"))
		runNext(t, w.scheduler.probes)
		ended := w.turn(t)
		if !w.Start(cluster("v")) {
			t.Error("it is not pending")
		}
		<-ended
		w.probed(t.Context(), cluster("u"), []byte("k"), nil)
		if !w.IsPending(key) {
			t.Error("the result of the first is used for the second")
		}
	})
	t.Run("a Cluster that is not probed: is not pending", func(t *testing.T) {
		w := newWorld()
		byItself, local := cluster("u"), cluster("u")
		byItself.Spec.KubeConfigSecret, local.Name = "", "local"
		if w.Start(byItself) || w.Start(local) || w.IsPending(key) {
			t.Error("it is pending")
		}
		w.Reconciled(key)
		w.Forget(key)
	})
	t.Run("a process that is stopping: records nothing", func(t *testing.T) {
		w := newWorld()
		w.Start(cluster("u"))
		ctx, end := context.WithCancel(t.Context())
		end()
		w.probed(ctx, cluster("u"), []byte("k"), context.Canceled)
		if !w.IsPending(key) || w.enqueued != 0 {
			t.Error("the result is recorded")
		}
	})
}
