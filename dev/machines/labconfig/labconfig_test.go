package labconfig

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/manager/managertest"
	"github.com/fleet-hub/fleet/dev/machines/workload"
)

// world is a management cluster and the cluster of the machines.
type world struct {
	*testing.T
	store   *managertest.Store
	handler *handler
	// tokens counts the requests for tokens, which return tokenErr.
	tokens   int
	tokenErr error
}

// newWorld contains the objects of an input, with the owners that the core sets.
func newWorld(t *testing.T, in Input) *world {
	t.Helper()
	w := &world{T: t, store: managertest.New(t)}
	w.store.Now = someDay
	w.handler = &handler{Context: w.store.Context, ctx: t.Context(), ensureToken: func(context.Context, []byte, workload.Token, time.Time) error {
		w.tokens++
		return w.tokenErr
	}}
	in.Machine.UID = "m"
	in.Machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: api.GroupVersion().Group, Kind: "LabConfig", Name: "east-1"}
	in.Config.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "east-1", UID: "m"}}
	in.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: api.GroupVersion().Group, Kind: "LabControlPlane", Name: "east-cp"}
	for _, each := range []managertest.Object{in.Config, in.Machine, in.Cluster, in.ControlPlane} {
		w.store.Put(each)
	}
	for _, each := range []*corev1.Secret{in.CA, in.Accounts, in.Kubeconfig, in.Data} {
		if each != nil {
			w.store.Put(each)
		}
	}
	return w
}

func (w *world) config() *api.LabConfig {
	return managertest.Get(w.store, &api.LabConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-1"}})
}

func (w *world) data() *corev1.Secret {
	return managertest.Get(w.store, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-1-bootstrap-data"}})
}

func (w *world) reconcile() error {
	_, err := w.handler.reconcile("", w.config())
	return err
}

// expectReason compares the condition Ready.
func (w *world) expectReason(want string) {
	w.Helper()
	found := meta.FindStatusCondition(w.config().Status.Conditions, "Ready")
	if found == nil || found.Reason != want {
		w.Errorf("condition %+v, want the reason %s", found, want)
	}
}

// expectCreated compares what the core reads.
func (w *world) expectCreated() {
	w.Helper()
	yes := true
	status := w.config().Status
	if diff := cmp.Diff([]any{"east-1-bootstrap-data", &yes}, []any{status.DataSecretName, status.Initialization.DataSecretCreated}); diff != "" {
		w.Errorf("status (-want +got):\n%s", diff)
	}
	if w.data() == nil {
		w.Error("the Secret does not exist")
	}
	w.expectReason("Ready")
}

// TestBootstrapConfig_InitializationCompleted is named after the rule of Cluster API.
func TestBootstrapConfig_InitializationCompleted(t *testing.T) {
	for name, in := range map[string]Input{"control plane": controlPlaneOf(t), "worker": workerOf(t)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, in)
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			w.expectCreated()
			before, config := w.data(), w.config()
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if w.data().ResourceVersion != before.ResourceVersion || w.config().ResourceVersion != config.ResourceVersion {
				t.Error("the second time something is written again")
			}
		})
	}
}

func TestKilledBeforeTheStatus_KeepsTheSecret(t *testing.T) {
	w := newWorld(t, controlPlaneOf(t))
	w.store.FreezeCaches() // as they are after a restart at the worst moment
	w.store.Fail = func(write string) error {
		if write == "status LabConfig" {
			return errors.New("killed")
		}
		return nil
	}
	if err := w.reconcile(); err == nil {
		t.Fatal("want the error")
	}
	first := w.data()
	w.store.Fail = nil
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.expectCreated()
	if first.ResourceVersion != w.data().ResourceVersion {
		t.Error("the Secret was written again")
	}
}

func TestForeignSecret_IsNotOverwritten(t *testing.T) {
	w := newWorld(t, controlPlaneOf(t))
	w.store.FreezeCaches() // the cache contains only Secrets with the label
	w.store.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-1-bootstrap-data"}})
	if err := w.reconcile(); err == nil {
		t.Error("want an error, so that it is repeated")
	}
	w.expectReason("SecretConflict")
	if len(w.data().Data) > 0 {
		t.Error("the Secret was changed")
	}
}

func TestToken_IsWrittenBeforeTheDataAndExtended(t *testing.T) {
	w := newWorld(t, workerOf(t))
	w.tokenErr = errors.New("connection refused")
	if err := w.reconcile(); err == nil || w.data() != nil {
		t.Errorf("error %v, Secret %v", err, w.data())
	}
	w.expectReason("BootstrapTokenNotWritten")
	w.tokenErr = nil
	for range 2 { // again after the interval
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	w.expectCreated()
	if diff := cmp.Diff([]string{"LabConfig team/east-1 10m0s", "LabConfig team/east-1 10m0s"}, w.store.Enqueued); diff != "" || w.tokens != 3 {
		t.Errorf("%d requests for tokens, enqueued (-want +got):\n%s", w.tokens, diff)
	}
	machine := managertest.Get(w.store, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-1"}}).DeepCopy()
	machine.Status.NodeRef.Name = "east-1"
	w.store.Put(machine)
	if err := w.reconcile(); err != nil || w.tokens != 3 {
		t.Errorf("%d requests for tokens after the machine has joined, %v", w.tokens, err)
	}
}

func TestFileOfAMissingSecret_IsReportedUntilItExists(t *testing.T) {
	w := newWorld(t, controlPlaneOf(t, func(in *Input) {
		in.Config.Spec.Files = []api.File{{Path: "/etc/motd", ContentFrom: api.FileSource{Secret: api.SecretKey{Name: "motd", Key: "text"}}}}
	}))
	if err := w.reconcile(); err == nil || w.data() != nil {
		t.Errorf("error %v, Secret %v", err, w.data())
	}
	w.expectReason("FilesInvalid")
	for _, namespace := range []string{"other", "team"} { // the first one must not help
		motd := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "motd"}, Data: map[string][]byte{"text": []byte("hello")}}
		if _, err := w.handler.Kube.CoreV1().Secrets(namespace).Create(t.Context(), motd, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.reconcile(); (err == nil) != (namespace == "team") {
			t.Errorf("with a Secret in namespace %s: %v", namespace, err)
		}
	}
	w.expectCreated()
	if got := contents(t, w.data().Data["value"])["etc/motd"]; got != "hello" {
		t.Errorf("the file contains %q", got)
	}
}

// TestBootstrapConfig_Pausing is named after the rule of Cluster API.
func TestBootstrapConfig_Pausing(t *testing.T) {
	w := newWorld(t, workerOf(t, func(in *Input) { in.Config.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }))
	before := w.config().ResourceVersion
	if err := w.reconcile(); err != nil || w.data() != nil || w.tokens > 0 || w.config().ResourceVersion != before {
		t.Errorf("a paused LabConfig was touched: %v", err)
	}
}

func TestConfigOf_FindsOnlyLabConfigs(t *testing.T) {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}}
	machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "x"}
	if keys := configOf(machine); len(keys) > 0 {
		t.Errorf("keys %v", keys)
	}
	w := newWorld(t, workerOf(t))
	cluster := managertest.Get(w.store, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east"}})
	for name, keys := range map[string]int{
		"Cluster":             len(w.handler.configsOf(cluster)),
		"Secret of a Cluster": len(w.handler.configsOfSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Labels: map[string]string{clusterv1.ClusterNameLabel: "east"}}})),
		"bootstrap data":      len(w.handler.configsOfSecret(newSecret(workerOf(t), nil))),
	} {
		if keys != 1 {
			t.Errorf("%s: %d keys, want one", name, keys)
		}
	}
}
