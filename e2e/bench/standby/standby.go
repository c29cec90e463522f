package standby

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	deployment = "fleet-controller"
	// filled is what a replica logs when its caches are filled.
	filled = `msg="caches filled"`
	pause  = 20 * time.Millisecond
)

var (
	errNotInTime   = errors.New("it did not happen in time")
	errOtherLeader = errors.New("another replica than the standby leads")
)

// Hub is the hub that is measured.
type Hub struct {
	Kube kubernetes.Interface
	// Clock is the machine's clock. The replicas on the same machine write its time to their lease.
	Clock func() time.Time
	// Kill ends the process of a controller's pod with SIGKILL. Another process is started in the pod.
	Kill func(ctx context.Context, pod string) error
	// Log returns what the processes of a pod have logged.
	Log func(pod string) ([]byte, error)
	// Rest returns when there are no more writes.
	Rest func(ctx context.Context) error
	// Change makes a change, one of Changes, and returns when the controller has reconciled it.
	Change func(ctx context.Context, name string) error
	// Resident returns the memory of a pod's process in MiB.
	Resident func(pod string) (float64, error)
}

// The changes, by what happened to the leader before.
const (
	killed  = "killed"
	stopped = "stopped"
)

// Changes returns the names of all changes that Measure makes.
func Changes() []string { return []string{killed, stopped} }

// Figures are those of a hub with two replicas.
type Figures struct {
	// Lease is the lease duration. A killed leader holds its lease until then.
	Lease float64 `json:"leaseSeconds"`
	// Resident is the memory of the standby before it leads.
	Resident float64 `json:"standbyRSSMiB"`
	// Killed is after kill -9 of the leader, Stopped after the deletion of its pod.
	Killed  TakeOver `json:"killed"`
	Stopped TakeOver `json:"stopped"`
}

// TakeOver holds times from the end of the leader: until the standby holds the last lease, and until it has reconciled
// the first change.
type TakeOver struct {
	Leading     float64 `json:"secondsUntilLeading"`
	FirstChange float64 `json:"secondsToFirstChange"`
}

// Measure ends the leader in both ways. Afterwards there is one replica again.
func (h Hub) Measure(ctx context.Context) (f Figures, err error) {
	if err := h.scale(ctx, 2); err != nil {
		return f, err
	}
	leader, standby, err := h.warm(ctx, nil)
	if err != nil {
		return f, err
	}
	if f.Resident, err = h.Resident(standby); err != nil {
		return f, err
	}
	before, err := h.fillings(leader)
	if err != nil {
		return f, err
	}
	f.Killed, err = h.takeOver(ctx, standby, killed, func() error { return h.Kill(ctx, leader) })
	if err != nil {
		return f, err
	}
	leader, standby, err = h.warm(ctx, map[string]int{leader: before})
	if err != nil {
		return f, err
	}
	f.Stopped, err = h.takeOver(ctx, standby, stopped, func() error { return h.stop(ctx, leader) })
	if err != nil {
		return f, err
	}
	lease, err := h.lease(ctx)
	if err != nil {
		return f, err
	}
	f.Lease = float64(*lease.Spec.LeaseDurationSeconds)
	return f, h.scale(ctx, 1)
}

// takeOver ends the leader, and measures the standby.
func (h Hub) takeOver(ctx context.Context, standby, name string, end func() error) (t TakeOver, err error) {
	if err := h.Rest(ctx); err != nil {
		return t, err
	}
	began := h.Clock()
	if err := end(); err != nil {
		return t, fmt.Errorf("ending the leader: %w", err)
	}
	if err := h.Change(ctx, name); err != nil {
		return t, fmt.Errorf("waiting for the first change: %w", err)
	}
	t.FirstChange = seconds(h.Clock().Sub(began))
	lease, err := h.lease(ctx)
	if err != nil {
		return t, err
	}
	if !holds(lease, standby) || lease.Spec.AcquireTime == nil {
		return t, fmt.Errorf("%w: %s, and not %s", errOtherLeader, holder(lease), standby)
	}
	t.Leading = seconds(lease.Spec.AcquireTime.Sub(began))
	return t, nil
}

// stop deletes the leader's pod, and returns when the leader has released its last lease. Until then it might reconcile
// the change itself.
func (h Hub) stop(ctx context.Context, leader string) error {
	if err := h.Kube.CoreV1().Pods(names.SystemNamespace).Delete(ctx, leader, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", leader, err)
	}
	return h.until(ctx, "the end of the leader", func() (bool, error) {
		lease, err := h.lease(ctx)
		return err == nil && !holds(lease, leader), err
	})
}

// scale sets the number of replicas, and waits until there are so many pods and one of them leads.
func (h Hub) scale(ctx context.Context, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := h.Kube.AppsV1().Deployments(names.SystemNamespace).Patch(ctx, deployment, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("scaling the controller: %w", err)
	}
	return h.until(ctx, fmt.Sprintf("%d replicas", replicas), func() (bool, error) {
		leader, others, err := h.pods(ctx)
		return leader != "" && len(others) == replicas-1, err
	})
}

// warm waits until a replica leads and the only other one has filled its caches more often than before.
func (h Hub) warm(ctx context.Context, before map[string]int) (leader, standby string, err error) {
	err = h.until(ctx, "a standby with filled caches", func() (bool, error) {
		var others []string
		leader, others, err = h.pods(ctx)
		if err != nil || leader == "" || len(others) != 1 {
			return false, err
		}
		standby = others[0]
		n, err := h.fillings(standby)
		return n > before[standby], err
	})
	return leader, standby, err
}

// pods returns the pod that leads, or "", and the others. Pods that are being deleted count as others.
func (h Hub) pods(ctx context.Context) (leader string, others []string, err error) {
	pods, err := h.Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + deployment})
	if err != nil {
		return "", nil, fmt.Errorf("listing the replicas: %w", err)
	}
	lease, err := h.lease(ctx)
	if err != nil {
		return "", nil, err
	}
	for _, pod := range pods.Items {
		if holds(lease, pod.Name) && pod.DeletionTimestamp == nil {
			leader = pod.Name
		} else {
			others = append(others, pod.Name)
		}
	}
	return leader, others, nil
}

// fillings returns how often processes of a pod have filled their caches.
func (h Hub) fillings(pod string) (int, error) {
	log, err := h.Log(pod)
	if err != nil {
		return 0, fmt.Errorf("reading the log of %s: %w", pod, err)
	}
	return bytes.Count(log, []byte(filled)), nil
}

func (h Hub) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := h.Kube.CoordinationV1().Leases(names.SystemNamespace).Get(ctx, names.ControllerLease, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the lease: %w", err)
	}
	return lease, nil
}

func (h Hub) until(ctx context.Context, what string, done func() (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, pause, true, func(context.Context) (bool, error) { return done() })
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, errNotInTime, err)
	}
	return nil
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// holds reports whether a process of a pod holds the lease.
func holds(lease *coordinationv1.Lease, pod string) bool {
	return strings.HasPrefix(holder(lease), pod+"_")
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*100) / 100 }
