package labmachine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/manager/managertest"
)

// world is everything outside the provider: the machine host and the workload cluster. Each request of the provider that
// changes something is a step at which the provider can be killed, before or after the step takes effect.
type world struct {
	machines map[string]*host.Status
	wanted   map[string]host.Machine
	created  []string // IDs, in order
	next     host.State
	err      error
	node     *corev1.Node
	patched  []string
	step     func(what string, do func() error) error
}

func (w *world) CreateMachine(_ context.Context, id string, wanted host.Machine) (host.Status, error) {
	if w.err != nil {
		return host.Status{}, w.err
	}
	err := w.step("create", func() error {
		if w.machines[id] == nil {
			w.created = append(w.created, id)
			w.wanted[id] = wanted
			w.machines[id] = &host.Status{ID: id, State: host.Bootstrapping, Address: "127.0.0.1", Port: 4000, Services: []host.Service{{Name: api.NodeService}}}
		}
		return nil
	})
	if err != nil {
		return host.Status{}, err
	}
	return *w.machines[id], nil
}

func (w *world) Machine(_ context.Context, id string) (host.Status, error) {
	if w.err != nil {
		return host.Status{}, w.err
	}
	machine := w.machines[id]
	if machine == nil {
		return host.Status{}, fmt.Errorf("machine %s: %w", id, host.ErrNotFound)
	}
	seen := *machine
	machine.State = w.next // bootstrapping takes as long as the provider looks once
	return seen, nil
}

func (w *world) DeleteMachine(_ context.Context, id string) error {
	if w.err != nil {
		return w.err
	}
	return w.step("delete", func() error { delete(w.machines, id); return nil })
}

func (w *world) Node(context.Context, *clusterv1.Cluster, string) (*corev1.Node, error) {
	return w.node.DeepCopy(), nil
}

func (w *world) PatchNode(_ context.Context, _ *clusterv1.Cluster, name string, patch []byte) error {
	return w.step("patch node", func() error {
		w.patched = append(w.patched, name+" "+string(patch))
		w.node.Spec.ProviderID = "lab:///uid"
		return nil
	})
}

type rig struct {
	*managertest.Store
	*world
	handler *handler
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Store: managertest.New(t), world: &world{
		machines: map[string]*host.Status{}, wanted: map[string]host.Machine{}, next: host.Running,
		node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: "1"}},
		step: func(_ string, do func() error) error { return do() },
	}}
	r.handler = &handler{Context: r.Context, Options: Options{Host: r.world, Nodes: r.world, Socket: "/host.sock"}, ctx: t.Context()}
	data := "m-data"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: data}, Data: map[string][]byte{"value": []byte("#cloud-config")}}
	if _, err := r.Context.Kube.CoreV1().Secrets("ns").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Put(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Spec:   clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: api.GroupVersion().Group, Kind: "LabCluster", Name: "c"}},
		Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: &yes}}})
	r.Put(&api.LabCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "endpoint"}})
	r.Put(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "machine"},
		Spec: clusterv1.MachineSpec{ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: &data}}})
	r.Put(labMachine("uid"))
	return r
}

func labMachine(uid types.UID) *api.LabMachine {
	return &api.LabMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: uid, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "machine"},
	}}}
}

func (r *rig) get() *api.LabMachine { return managertest.Get(r.Store, labMachine("")) }

func (r *rig) reconcile() error {
	cached, err := r.Context.LabMachines.Cache().Get("ns", "m")
	if apierrors.IsNotFound(err) {
		return nil
	}
	_, err = r.handler.reconcile("ns/m", cached)
	return err
}

// settle reconciles until done returns true, with a minute between the rounds. It ignores errors, as lasso does.
func (r *rig) settle(t *testing.T, done func() bool) {
	t.Helper()
	var err error
	for range 20 {
		if done() {
			return
		}
		err = r.reconcile()
		r.Now = r.Now.Add(time.Minute)
	}
	t.Fatalf("not done after 20 rounds: LabMachine %+v, machines %v, last error %v", r.get(), r.machines, err)
}

func (r *rig) provisioned() bool { return r.get() != nil && isProvisioned(r.get()) }

func (r *rig) condition(kind string) metav1.Condition {
	if found := meta.FindStatusCondition(r.get().Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// record lists the steps and writes of the provider in order.
func (r *rig) record() *[]string {
	steps := &[]string{}
	r.step = func(what string, do func() error) error {
		*steps = append(*steps, what)
		return do()
	}
	r.Fail = func(write string) error {
		*steps = append(*steps, write)
		return nil
	}
	return steps
}

func TestContract_InfraMachine_ProviderID(t *testing.T) {
	r := newRig(t)
	steps := r.record()
	r.settle(t, r.provisioned)
	if got := r.get().Spec.ProviderID; got != "lab:///uid" || r.node.Spec.ProviderID != got {
		t.Errorf("provider ID %q, of the Node %q", got, r.node.Spec.ProviderID)
	}
	onNode, onLabMachine := slices.Index(*steps, "patch node"), len(*steps)-2
	if onNode < 0 || onNode > onLabMachine || (*steps)[onLabMachine] != "patch LabMachine" {
		t.Errorf("steps %v, want the Node's provider ID before the LabMachine's", *steps)
	}
}

func TestContract_InfraMachine_InitializationCompleted(t *testing.T) {
	r := newRig(t)
	steps := r.record()
	r.settle(t, r.provisioned)
	if last := (*steps)[len(*steps)-1]; last != "status LabMachine" {
		t.Errorf("steps %v, want provisioned last", *steps)
	}
}

func TestContract_InfraMachine_Conditions(t *testing.T) {
	r := newRig(t)
	r.settle(t, r.provisioned)
	for _, kind := range []string{clusterv1.ReadyCondition, api.ConditionBootstrapSucceeded} {
		if got := r.condition(kind); got.Status != metav1.ConditionTrue {
			t.Errorf("condition %s is %+v", kind, got)
		}
	}
}

func TestContract_InfraMachine_Pausing(t *testing.T) {
	r := newRig(t)
	paused := labMachine("uid")
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
	r.Put(paused)
	r.Delete(paused)
	r.Put(paused)
	version := r.get().ResourceVersion
	steps := r.record()
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if r.get().ResourceVersion != version || len(*steps) > 0 {
		t.Errorf("a paused LabMachine was touched: %v", *steps)
	}
}

func TestControlPlane_GetsTheEndpoint(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   string
	}{
		{"worker: a port of its own", nil, ""},
		{"control plane: the endpoint of the LabCluster", map[string]string{clusterv1.MachineControlPlaneLabel: ""}, "endpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			machine := managertest.Get(r.Store, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}})
			machine.Labels = c.labels
			r.Put(machine)
			r.settle(t, r.provisioned)
			if got := r.wanted["uid"]; got.Endpoint != c.want || got.ExtraPorts != api.MachineExtraPorts || string(got.BootstrapData) != "#cloud-config" {
				t.Errorf("created %+v, want endpoint %q", got, c.want)
			}
		})
	}
}

// The provider is killed before and after each step of the way to a provisioned machine. Exactly one machine is created.
func TestKilledAtEachStep_CreatesOneMachine(t *testing.T) {
	r := newRig(t)
	steps := r.record()
	r.settle(t, r.provisioned)
	for at, what := range *steps {
		for _, takesEffect := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %s, takes effect: %v", at, what, takesEffect), func(t *testing.T) {
				r := newRig(t)
				r.killAt(at, takesEffect)
				r.settle(t, r.provisioned)
				if len(r.created) != 1 || len(r.machines) != 1 {
					t.Errorf("created %v, want one machine", r.created)
				}
				if r.node.Spec.ProviderID != r.get().Spec.ProviderID {
					t.Errorf("provider ID %q, of the Node %q", r.get().Spec.ProviderID, r.node.Spec.ProviderID)
				}
			})
		}
	}
}

// killAt makes the step with this number fail, as for a provider that was killed. Writes to the API server fail before
// they take effect; the next step fails after it.
func (r *rig) killAt(at int, takesEffect bool) {
	killed := errors.New("killed")
	step := -1
	r.step = func(_ string, do func() error) error {
		if step++; step == at {
			if takesEffect {
				return errors.Join(do(), killed)
			}
			return killed
		}
		return do()
	}
	r.Fail = func(string) error {
		if step++; step == at {
			return killed
		}
		return nil
	}
}

func TestDeletion_KilledAtEachStep_LeavesNothing(t *testing.T) {
	for at := range 3 {
		for _, takesEffect := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, takes effect: %v", at, takesEffect), func(t *testing.T) {
				r := newRig(t)
				r.settle(t, r.provisioned)
				r.Delete(labMachine(""))
				r.killAt(at, takesEffect)
				r.settle(t, func() bool { return r.get() == nil })
				if len(r.machines) > 0 {
					t.Errorf("left: %v", r.machines)
				}
			})
		}
	}
}

func TestDeletionWhileBootstrapping_LeavesNothing(t *testing.T) {
	r := newRig(t)
	r.next = host.Bootstrapping
	r.settle(t, func() bool { return len(r.machines) == 1 })
	r.Delete(labMachine(""))
	r.settle(t, func() bool { return r.get() == nil })
	if len(r.machines) > 0 {
		t.Errorf("left: %v", r.machines)
	}
}

func TestDeletionWhileHostIsDown_WaitsForIt(t *testing.T) {
	r := newRig(t)
	r.settle(t, r.provisioned)
	r.Delete(labMachine(""))
	r.err = host.ErrUnavailable
	if err := r.reconcile(); !errors.Is(err, host.ErrUnavailable) || r.get() == nil {
		t.Fatalf("error %v, LabMachine %v: want it to stay", err, r.get())
	}
	if got := r.condition(clusterv1.ReadyCondition); got.Reason != "HostUnavailable" {
		t.Errorf("condition %+v", got)
	}
	r.err = nil
	r.settle(t, func() bool { return r.get() == nil })
}

func TestStaleCacheAfterDeletion_CreatesNothing(t *testing.T) {
	r := newRig(t)
	r.next = host.Bootstrapping
	r.settle(t, func() bool { return len(r.machines) == 1 })
	r.FreezeCaches() // the LabMachine has the finalizer, and no provider ID
	r.Remove(labMachine(""))
	r.machines, r.created = map[string]*host.Status{}, nil
	if err := r.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(r.created) > 0 {
		t.Error("a machine of a LabMachine that is gone was created")
	}
}

func TestRecreatedLabMachine_GetsAnotherMachine(t *testing.T) {
	r := newRig(t)
	r.settle(t, r.provisioned)
	r.Delete(labMachine(""))
	r.settle(t, func() bool { return r.get() == nil })
	r.Put(labMachine("uid-2"))
	r.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	r.settle(t, r.provisioned)
	if want := []string{"uid", "uid-2"}; !slices.Equal(r.created, want) || len(r.machines) != 1 {
		t.Errorf("created %v, machines %v", r.created, r.machines)
	}
}

func TestLabMachineOfAFormerMachine_IsNotTouched(t *testing.T) {
	r := newRig(t)
	machine := managertest.Get(r.Store, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}})
	machine.UID = "recreated"
	r.Put(machine)
	if err := r.reconcile(); err != nil || len(r.created) > 0 {
		t.Errorf("error %v, created %v", err, r.created)
	}
}

func TestFailedBootstrapping_IsReportedAndRetried(t *testing.T) {
	r := newRig(t)
	r.next = host.Failed
	r.settle(t, func() bool { return r.get().Status.Attempts == 1 })
	if got := r.condition(api.ConditionBootstrapSucceeded); got.Status != metav1.ConditionFalse || got.Reason != ReasonBootstrapFailed {
		t.Errorf("condition %+v", got)
	}
	r.settle(t, func() bool { return len(r.created) == 3 })
	r.next = host.Running
	r.settle(t, r.provisioned)
	if r.get().Status.Attempts != 2 || len(r.machines) != 1 {
		t.Errorf("%d attempts, machines %v", r.get().Status.Attempts, r.machines)
	}
	if got := r.condition(api.ConditionBootstrapSucceeded); got.Status != metav1.ConditionTrue || got.Message != "" {
		t.Errorf("condition %+v", got)
	}
}

func TestBootstrapDataMissing_IsReported(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){
		"no key value": func(s *corev1.Secret) { s.Data = map[string][]byte{"other": []byte("x")} },
		"empty":        func(s *corev1.Secret) { s.Data["value"] = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			secrets := r.Context.Kube.CoreV1().Secrets("ns")
			secret, err := secrets.Get(t.Context(), "m-data", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			spoil(secret)
			if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := r.reconcile(); err == nil || len(r.created) > 0 {
				t.Fatalf("error %v, created %v", err, r.created)
			}
			if got := r.condition(clusterv1.ReadyCondition); got.Reason != clusterv1.WaitingForBootstrapDataReason {
				t.Errorf("condition %+v", got)
			}
		})
	}
}

func TestCreationRefused_IsReportedAndRepeated(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{host.ErrPortInUse, "PortInUse"},
		{host.ErrConflict, "HostConflict"},
		{host.ErrFull, "HostFull"},
	} {
		t.Run(c.want, func(t *testing.T) {
			r := newRig(t)
			r.step = func(what string, do func() error) error {
				if what == "create" {
					return c.err
				}
				return do()
			}
			if err := r.reconcile(); !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if got := r.condition(clusterv1.ReadyCondition); got.Reason != c.want {
				t.Errorf("condition %+v, want %s", got, c.want)
			}
			r.step = func(_ string, do func() error) error { return do() }
			r.settle(t, r.provisioned)
		})
	}
}
