package labcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/manager/managertest"
)

// fakeHost reserves ports by ID.
type fakeHost struct {
	ports map[string]int
	err   error
}

func (h *fakeHost) ReserveEndpoint(_ context.Context, id string) (string, int, error) {
	if h.err != nil {
		return "", 0, h.err
	}
	if h.ports[id] == 0 {
		h.ports[id] = 4000 + len(h.ports)
	}
	return "127.0.0.1", h.ports[id], nil
}

func (h *fakeHost) FreeEndpoint(_ context.Context, id string) error {
	if h.err == nil {
		delete(h.ports, id)
	}
	return h.err
}

type rig struct {
	*managertest.Store
	handler *handler
	host    *fakeHost
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Store: managertest.New(t), host: &fakeHost{ports: map[string]int{}}}
	r.handler = &handler{Context: r.Context, ctx: t.Context(), host: r.host}
	r.Put(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "cluster"}})
	r.Put(labCluster("lab"))
	return r
}

func labCluster(uid types.UID) *api.LabCluster {
	return &api.LabCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: uid, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "cluster"},
	}}}
}

func (r *rig) reconcile() error {
	cached, err := r.Context.LabClusters.Cache().Get("ns", "c")
	if apierrors.IsNotFound(err) {
		return nil
	}
	_, err = r.handler.reconcile("ns/c", cached)
	return err
}

func (r *rig) get() *api.LabCluster { return managertest.Get(r.Store, labCluster("")) }

func TestContract_InfraCluster_ControlPlaneEndpoint(t *testing.T) {
	r := newRig(t)
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if want := (clusterv1.APIEndpoint{Host: "127.0.0.1", Port: int32(r.host.ports["lab"])}); r.get().Spec.ControlPlaneEndpoint != want {
		t.Errorf("endpoint %v, want %v", r.get().Spec.ControlPlaneEndpoint, want)
	}
}

func TestContract_InfraCluster_InitializationCompleted(t *testing.T) {
	r := newRig(t)
	var writes []string
	r.Fail = func(write string) error {
		writes = append(writes, write)
		return nil
	}
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if !isProvisioned(r.get()) {
		t.Error("it is not provisioned")
	}
	if want := []string{"patch LabCluster", "patch LabCluster", "status LabCluster"}; !slices.Equal(writes, want) {
		t.Errorf("writes %v, want %v: finalizer, endpoint, and provisioned last", writes, want)
	}
}

func TestContract_InfraCluster_Conditions(t *testing.T) {
	r := newRig(t)
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(r.get().Status.Conditions, clusterv1.ReadyCondition) {
		t.Errorf("conditions %v, want Ready", r.get().Status.Conditions)
	}
}

func TestContract_InfraCluster_Pausing(t *testing.T) {
	r := newRig(t)
	paused := true
	r.Put(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "cluster"}, Spec: clusterv1.ClusterSpec{Paused: &paused}})
	version := r.get().ResourceVersion
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if r.get().ResourceVersion != version || len(r.host.ports) > 0 {
		t.Error("a paused LabCluster was touched")
	}
}

func TestHostErrors_AreReportedAndRepeated(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{host.ErrUnavailable, "HostUnavailable"},
		{host.ErrPortInUse, "PortInUse"},
		{host.ErrFull, "HostFull"},
		{errors.New("other"), "HostFailed"},
	} {
		t.Run(c.want, func(t *testing.T) {
			r := newRig(t)
			r.host.err = fmt.Errorf("reserving: %w", c.err)
			if err := r.reconcile(); !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v: lasso repeats only after errors", err, c.err)
			}
			ready := meta.FindStatusCondition(r.get().Status.Conditions, clusterv1.ReadyCondition)
			if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != c.want {
				t.Errorf("condition %v, want reason %s", ready, c.want)
			}
			r.host.err = nil
			if err := r.reconcile(); err != nil || !isProvisioned(r.get()) {
				t.Errorf("it is not provisioned after the host works again: %v", err)
			}
		})
	}
}

func TestEndpointOfUser_IsNotOverwritten(t *testing.T) {
	r := newRig(t)
	taken := clusterv1.APIEndpoint{Host: "example.com", Port: 443}
	with := labCluster("lab")
	with.Spec.ControlPlaneEndpoint = taken
	r.Put(with)
	if err := r.reconcile(); err == nil {
		t.Fatal("no error")
	}
	ready := meta.FindStatusCondition(r.get().Status.Conditions, clusterv1.ReadyCondition)
	if r.get().Spec.ControlPlaneEndpoint != taken || isProvisioned(r.get()) || ready == nil || ready.Reason != ReasonEndpointMismatch {
		t.Errorf("spec %v, conditions %v", r.get().Spec, r.get().Status.Conditions)
	}
}

// The provider is killed before each write. It continues, and reserves one endpoint.
func TestKilledBeforeEachWrite_ReservesOneEndpoint(t *testing.T) {
	killed := errors.New("killed")
	for at := range 3 {
		t.Run(fmt.Sprintf("write %d", at+1), func(t *testing.T) {
			r := newRig(t)
			write := 0
			r.Fail = func(string) error {
				if write++; write == at+1 {
					return killed
				}
				return nil
			}
			if err := r.reconcile(); !errors.Is(err, killed) {
				t.Fatalf("error %v, want %v", err, killed)
			}
			if err := r.reconcile(); err != nil {
				t.Fatal(err)
			}
			if !isProvisioned(r.get()) || len(r.host.ports) != 1 {
				t.Errorf("provisioned %v with endpoints %v, want one", isProvisioned(r.get()), r.host.ports)
			}
		})
	}
}

func TestDeletion_FreesTheEndpoint(t *testing.T) {
	r := newRig(t)
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	r.Delete(labCluster(""))
	r.host.err = fmt.Errorf("%w: a machine has the endpoint", host.ErrConflict)
	if err := r.reconcile(); err == nil || r.get() == nil {
		t.Fatalf("it was removed before its endpoint is free: %v", err)
	}
	r.host.err = nil
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if r.get() != nil || len(r.host.ports) > 0 {
		t.Errorf("left: %v, endpoints %v", r.get(), r.host.ports)
	}
}

func TestStaleCacheAfterDeletion_ReservesNothing(t *testing.T) {
	r := newRig(t)
	kept := labCluster("lab")
	kept.Finalizers = []string{api.EndpointFinalizer}
	r.Put(kept)
	r.FreezeCaches()
	r.Remove(labCluster(""))
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(r.host.ports) > 0 {
		t.Error("an endpoint of a LabCluster that is gone was reserved")
	}
}

func TestRecreatedLabCluster_GetsAnotherEndpoint(t *testing.T) {
	r := newRig(t)
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	first := r.get().Spec.ControlPlaneEndpoint
	r.Put(labCluster("lab-2"))
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if r.get().Spec.ControlPlaneEndpoint == first {
		t.Error("the endpoint of the former LabCluster was given again")
	}
}
