package labcontrolplane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/manager/managertest"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// world is a management cluster and the API server of the control plane.
type world struct {
	*testing.T
	store   *managertest.Store
	handler *handler
	server  Server
}

// newWorld contains the objects of the user, with the owner that the core sets.
func newWorld(t *testing.T, changes ...func(*Input)) *world {
	t.Helper()
	in := input(t, changes...)
	w := &world{T: t, store: managertest.New(t), server: Server{Asked: true, Err: errors.New("connection refused")}}
	w.store.Now = someDay
	w.handler = &handler{Context: w.store.Context, ctx: t.Context(), ask: func(context.Context, []byte) Server { return w.server }}
	in.Cluster.UID = "c"
	in.ControlPlane.Finalizers = nil
	in.ControlPlane.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "east", UID: "c"}}
	in.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LabControlPlane", Name: "east-cp"}
	for _, each := range []managertest.Object{in.ControlPlane, in.Cluster, in.Template} {
		w.store.Put(each)
	}
	return w
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }

func (w *world) controlPlane() *api.LabControlPlane {
	return managertest.Get(w.store, &api.LabControlPlane{ObjectMeta: named("east-cp")})
}

func (w *world) machine() *clusterv1.Machine {
	return managertest.Get(w.store, &clusterv1.Machine{ObjectMeta: named("east-cp-83878")})
}

func (w *world) kubeconfig() *corev1.Secret {
	return managertest.Get(w.store, &corev1.Secret{ObjectMeta: named("east-kubeconfig")})
}

// reconcile reconciles as often as events would, and returns the first error.
func (w *world) reconcile() error {
	for range 5 {
		if w.controlPlane() == nil {
			return nil
		}
		if _, err := w.handler.reconcile("", w.controlPlane()); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) mustReconcile() {
	w.Helper()
	if err := w.reconcile(); err != nil {
		w.Fatal(err)
	}
}

// objects lists which objects exist.
func (w *world) objects() []string {
	var found []string
	add := func(exists bool, what string) {
		if exists {
			found = append(found, what)
		}
	}
	for _, name := range []string{"east-ca", "east-sa", "east-kubeconfig"} {
		add(managertest.Get(w.store, &corev1.Secret{ObjectMeta: named(name)}) != nil, name)
	}
	add(managertest.Get(w.store, &api.LabMachine{ObjectMeta: named("east-cp-83878")}) != nil, "LabMachine")
	add(managertest.Get(w.store, &api.LabConfig{ObjectMeta: named("east-cp-83878")}) != nil, "LabConfig")
	add(w.machine() != nil, "Machine")
	return found
}

func (w *world) expectEverything() {
	w.Helper()
	if diff := cmp.Diff([]string{"east-ca", "east-sa", "east-kubeconfig", "LabMachine", "LabConfig", "Machine"}, w.objects()); diff != "" {
		w.Errorf("objects (-want +got):\n%s", diff)
	}
}

func (w *world) isAvailable() bool {
	conditions := w.controlPlane().Status.Conditions
	return len(conditions) == 1 && conditions[0].Status == metav1.ConditionTrue
}

func TestControlPlane_IsCreatedInitializedAndDeleted(t *testing.T) {
	w := newWorld(t)
	w.mustReconcile()
	w.expectEverything()
	if w.isAvailable() || isInitialized(w.controlPlane()) {
		t.Errorf("before the first answer: %+v", w.controlPlane().Status)
	}
	w.server = Server{Asked: true, Version: "v1.36.3"}
	w.mustReconcile()
	if !w.isAvailable() || !isInitialized(w.controlPlane()) || !has(w.machine(), clusterv1.MachineUpToDateCondition) {
		t.Errorf("after the first answer: %+v, %+v", w.controlPlane().Status, w.machine().Status)
	}
	machine := w.machine().DeepCopy()
	machine.Finalizers = []string{"machine.cluster.x-k8s.io"}
	w.store.Put(machine)
	w.store.Delete(w.controlPlane())
	w.mustReconcile()
	if w.machine().DeletionTimestamp == nil || w.controlPlane() == nil {
		t.Error("the LabControlPlane has to wait for its Machine")
	}
	w.store.Remove(w.machine())
	w.mustReconcile()
	if w.controlPlane() != nil {
		t.Errorf("it is left: %+v", w.controlPlane())
	}
}

func TestSteadyControlPlane_IsNotWritten(t *testing.T) {
	w := newWorld(t)
	w.server = Server{Asked: true, Version: "v1.36.3"}
	w.mustReconcile()
	w.store.Fail = func(write string) error { return errors.New(write) }
	w.store.Now = someDay.Add(29 * time.Minute)
	w.mustReconcile()
}

func TestKubeconfig_IsRenewedAfterHalfAnHour(t *testing.T) {
	w := newWorld(t)
	w.server = Server{Asked: true, Version: "v1.36.3"}
	w.mustReconcile()
	before := w.kubeconfig()
	w.store.Now = someDay.Add(31 * time.Minute)
	w.mustReconcile()
	after := w.kubeconfig()
	if after.UID != before.UID || string(after.Data["value"]) == string(before.Data["value"]) {
		t.Error("the kubeconfig is the same, or the Secret is another one")
	}
	if left, err := owner(Input{ControlPlane: w.controlPlane(), Cluster: input(t).Cluster}).RenewIn(after, authorityOf(w), "https://127.0.0.1:20001", w.store.Now); err != nil || left != 30*time.Minute {
		t.Errorf("renewal in %v, %v", left, err)
	}
}

// TestKilledAtEachWrite checks that a provider that is killed at any write completes the same objects after a restart.
func TestKilledAtEachWrite_CompletesTheSameObjects(t *testing.T) {
	for killed := 1; ; killed++ {
		w := newWorld(t)
		w.server = Server{Asked: true, Version: "v1.36.3"}
		writes := 0
		w.store.Fail = func(string) error {
			if writes++; writes == killed {
				return errors.New("killed")
			}
			return nil
		}
		err := w.reconcile()
		if err == nil && killed > 8 {
			break // no further writes
		}
		if err == nil {
			t.Fatalf("write %d was not reached: %v", killed, w.objects())
		}
		w.mustReconcile()
		w.expectEverything()
		if !w.isAvailable() {
			t.Errorf("killed at write %d: %+v", killed, w.controlPlane().Status)
		}
	}
}

func TestStaleCaches_CreateNothingTwice(t *testing.T) {
	for steps := range 4 { // how far the caches are
		w := newWorld(t)
		for range steps {
			if _, err := w.handler.reconcile("", w.controlPlane()); err != nil {
				t.Fatal(err)
			}
		}
		w.store.FreezeCaches()
		w.mustReconcile()
		secret, machine := managertest.Get(w.store, &corev1.Secret{ObjectMeta: named("east-ca")}), w.machine()
		w.mustReconcile()
		w.store.ThawCaches()
		w.mustReconcile()
		w.expectEverything()
		if secret == nil || secret.UID != managertest.Get(w.store, secret).UID {
			t.Errorf("after %d steps: another CA", steps)
		}
		if machine != nil && machine.UID != w.machine().UID {
			t.Errorf("after %d steps: another Machine", steps)
		}
	}
}

func TestSecretWithoutLabel_IsReportedAsAnError(t *testing.T) {
	w := newWorld(t)
	w.store.FreezeCaches() // the cache contains only Secrets with the label
	w.store.Put(&corev1.Secret{ObjectMeta: named("east-ca")})
	secrets := owner(input(t))
	ca, err := secrets.NewCA(someDay)
	if err != nil {
		t.Fatal(err)
	}
	err = w.handler.createSecret(ca)
	if want := "the Secret team/east-ca exists without label cluster.x-k8s.io/cluster-name: delete it, then it is created again"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestControlPlane_Pausing is named after the rule of Cluster API.
func TestControlPlane_Pausing(t *testing.T) {
	yes := true
	w := newWorld(t, func(in *Input) { in.Cluster.Spec.Paused = &yes })
	before := w.controlPlane().ResourceVersion
	w.mustReconcile()
	if len(w.objects()) > 0 || w.controlPlane().ResourceVersion != before {
		t.Errorf("a paused LabControlPlane was touched: %v", w.objects())
	}
}

func TestMissingTemplate_IsFoundLater(t *testing.T) {
	w := newWorld(t)
	template := managertest.Get(w.store, &api.LabMachineTemplate{ObjectMeta: named("small")})
	w.store.Remove(template)
	w.mustReconcile()
	if got := w.controlPlane().Status.Conditions[0].Reason; got != ReasonTemplateInvalid {
		t.Errorf("reason %s", got)
	}
	w.store.Put(template)
	if keys := w.handler.usersOf(template); len(keys) != 1 || keys[0].Name != "east-cp" {
		t.Errorf("enqueued %v", keys)
	}
	w.mustReconcile()
	w.expectEverything()
}

func authorityOf(w *world) pki.Authority {
	w.Helper()
	secret := managertest.Get(w.store, &corev1.Secret{ObjectMeta: named("east-ca")})
	ca, err := pki.ParseAuthority(pki.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]})
	if err != nil {
		w.Fatal(err)
	}
	return ca
}
