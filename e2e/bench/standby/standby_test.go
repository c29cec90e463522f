package standby

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const leaseSeconds = 30

// cluster plays the pods of the controller, and their lease.
type cluster struct {
	t     *testing.T
	kube  *fake.Clientset
	now   time.Time
	logs  map[string]string
	holds string
	// wins is the pod that takes over, or "" for the standby.
	wins string
	// rested counts the calls of Rest.
	rested int
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, kube: fake.NewClientset(), now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), logs: map[string]string{}}
	meta := metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: deployment}
	_, err := c.kube.AppsV1().Deployments(meta.Namespace).Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta}, metav1.CreateOptions{})
	c.must(err)
	meta.Name = names.ControllerLease
	_, err = c.kube.CoordinationV1().Leases(meta.Namespace).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{})
	c.must(err)
	c.add("one")
	c.lead("one", 0)
	c.kube.PrependReactor("patch", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, is := action.(clienttesting.PatchAction)
		if is && strings.Contains(string(patch.GetPatch()), `"replicas":2`) {
			c.add("two")
		} else {
			c.remove("three")
		}
		return false, nil, nil
	})
	c.kube.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if gone, is := action.(clienttesting.DeleteAction); is && gone.GetName() == c.holds {
			c.holds = "nobody"
			c.add("three")
			c.lead("one", 150*time.Millisecond)
		}
		return false, nil, nil
	})
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) add(pod string) {
	c.t.Helper()
	c.must(c.kube.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: names.SystemNamespace, Name: pod, Labels: map[string]string{"app": deployment},
	}}))
	c.logs[pod] += "msg=starting\n" + filled + "\n"
}

func (c *cluster) remove(pod string) {
	c.t.Helper()
	c.must(c.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), names.SystemNamespace, pod))
}

// lead lets a pod lead some time from now.
func (c *cluster) lead(pod string, after time.Duration) {
	c.t.Helper()
	identity, seconds, at := pod+"_x", int32(leaseSeconds), metav1.NewMicroTime(c.now.Add(after))
	c.holds = pod
	c.must(c.kube.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.ControllerLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: &seconds, AcquireTime: &at},
	}, names.SystemNamespace))
}

func (c *cluster) hub() Hub {
	return Hub{
		Kube: c.kube, Clock: func() time.Time { return c.now },
		Kill: func(_ context.Context, pod string) error {
			if pod != "one" {
				c.t.Errorf("killed %s, which does not lead", pod)
			}
			c.logs[pod] += "msg=starting\n" + filled + "\n"
			winner := "two"
			if c.wins != "" {
				winner = c.wins
			}
			c.lead(winner, leaseSeconds*time.Second)
			return nil
		},
		Log: func(pod string) ([]byte, error) { return []byte(c.logs[pod]), nil },
		Rest: func(context.Context) error {
			c.rested++
			return nil
		},
		Change: func(_ context.Context, name string) error {
			c.now = c.now.Add(map[string]time.Duration{killed: 30500 * time.Millisecond, stopped: 700 * time.Millisecond}[name])
			return nil
		},
		Resident: func(pod string) (float64, error) { return map[string]float64{"one": 100, "two": 80}[pod], nil },
	}
}

func TestMeasure(t *testing.T) {
	c := newCluster(t)
	got, err := c.hub().Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Figures{
		Lease: leaseSeconds, Resident: 80, Killed: TakeOver{Leading: 30, FirstChange: 30.5}, Stopped: TakeOver{Leading: 0.15, FirstChange: 0.7},
	}
	if diff := cmp.Diff(want, got); diff != "" || c.rested != 2 {
		t.Errorf("rested %d times, (-want +got):\n%s", c.rested, diff)
	}
}

func TestRestartedProcessLeads_IsAnError(t *testing.T) {
	c := newCluster(t)
	c.wins = "one"
	if _, err := c.hub().Measure(t.Context()); !errors.Is(err, errOtherLeader) {
		t.Errorf("error %v", err)
	}
}

func TestColdStandby_IsWaitedFor(t *testing.T) {
	c := newCluster(t)
	hub := c.hub()
	log := hub.Log
	hub.Log = func(pod string) ([]byte, error) {
		text, err := log(pod)
		return []byte(strings.ReplaceAll(string(text), filled, "")), err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := hub.Measure(ctx); !errors.Is(err, errNotInTime) || !strings.Contains(err.Error(), "a standby with filled caches") {
		t.Errorf("error %v", err)
	}
}
