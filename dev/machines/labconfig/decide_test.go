package labconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
)

// someDay is the time of the tests.
var someDay = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// must returns a value, or ends the test.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// controlPlaneOf returns the input of a control plane whose bootstrap data can be written.
func controlPlaneOf(t testing.TB, changes ...func(*Input)) Input {
	t.Helper()
	yes := true
	in := Input{
		Config:       &api.LabConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-1", UID: "c"}},
		ControlPlane: &api.LabControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-cp", UID: "p"}},
		Machine: &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-1", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}},
			Spec:       clusterv1.MachineSpec{ClusterName: "east", Version: "v1.36.3"},
		},
		Cluster: &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east"},
			Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 20001}},
			Status:     clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: &yes}},
		},
		Now: someDay,
	}
	owner := clustersecrets.OwnerOf(in.ControlPlane, "east")
	in.CA = must(owner.NewCA(someDay))(t)
	in.Accounts = must(owner.NewAccounts())(t)
	for _, change := range changes {
		change(&in)
	}
	return in
}

// workerOf returns the input of a worker whose bootstrap data can be written.
func workerOf(t testing.TB, changes ...func(*Input)) Input {
	t.Helper()
	in := controlPlaneOf(t)
	yes := true
	in.Machine.Labels, in.Accounts = nil, nil
	in.Cluster.Status.Initialization.ControlPlaneInitialized = &yes
	owner := clustersecrets.OwnerOf(in.ControlPlane, "east")
	in.Kubeconfig = must(owner.NewKubeconfig(must(owner.ReadCA(in.CA))(t), "https://127.0.0.1:20001", someDay))(t)
	for _, change := range changes {
		change(&in)
	}
	return in
}

func withData(in *Input) { in.Data = newSecret(*in, []byte("#cloud-config\n")) }

func withForeignData(in *Input) {
	withData(in)
	in.Data.OwnerReferences[0].UID = "other"
}

func TestDecide(t *testing.T) {
	yes := true
	now := metav1.NewTime(someDay)
	tests := map[string]struct {
		in      Input
		stage   Stage
		reason  string
		message string
		token   bool
	}{
		"control plane with everything": {in: controlPlaneOf(t), stage: Generating},
		"worker with everything":        {in: workerOf(t), stage: Generating, token: true},
		"no Machine owns it yet":        {in: controlPlaneOf(t, func(in *Input) { in.Machine = nil }), stage: Skipping},
		"no Cluster":                    {in: controlPlaneOf(t, func(in *Input) { in.Cluster = nil }), stage: Skipping},
		"being deleted":                 {in: controlPlaneOf(t, func(in *Input) { in.Config.DeletionTimestamp = &now }), stage: Skipping},
		"paused Cluster":                {in: controlPlaneOf(t, func(in *Input) { in.Cluster.Spec.Paused = &yes }), stage: Skipping},
		"paused worker with data": {in: workerOf(t, withData, func(in *Input) {
			in.Config.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}), stage: Skipping},
		"infrastructure is not provisioned": {
			in:    controlPlaneOf(t, func(in *Input) { in.Cluster.Status.Initialization.InfrastructureProvisioned = nil }),
			stage: Waiting, reason: "WaitingForClusterInfrastructureReady", message: "the infrastructure of Cluster east is not provisioned yet",
		},
		"no endpoint": {
			in:    controlPlaneOf(t, func(in *Input) { in.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} }),
			stage: Waiting, reason: "WaitingForClusterInfrastructureReady", message: "the infrastructure of Cluster east is not provisioned yet",
		},
		"version that machines cannot run": {
			in:    workerOf(t, func(in *Input) { in.Machine.Spec.Version = "v1.35.0" }),
			stage: Waiting, reason: "VersionNotAvailable",
			message: `Machine east-1 wants Kubernetes "v1.35.0", but machines only run v1.36.3: set this version in the Cluster or its topology`,
		},
		"version without v":       {in: workerOf(t, func(in *Input) { in.Machine.Spec.Version = "1.36.3" }), stage: Generating, token: true},
		"Machine without version": {in: workerOf(t, func(in *Input) { in.Machine.Spec.Version = "" }), stage: Generating, token: true},
		"CA is not written yet":   {in: controlPlaneOf(t, func(in *Input) { in.CA = nil }), stage: Waiting, reason: "WaitingForControlPlaneInitialized", message: "Secret team/east-ca of the control plane does not exist yet"},
		"no LabControlPlane":      {in: controlPlaneOf(t, func(in *Input) { in.ControlPlane = nil }), stage: Waiting, reason: "WaitingForControlPlaneInitialized", message: "Secret team/east-ca of the control plane does not exist yet"},
		"no ServiceAccount key":   {in: controlPlaneOf(t, func(in *Input) { in.Accounts = nil }), stage: Waiting, reason: "WaitingForControlPlaneInitialized", message: "Secret team/east-sa of the control plane does not exist yet"},
		"CA of another cluster":   {in: controlPlaneOf(t, func(in *Input) { in.CA.OwnerReferences[0].UID = "x" }), stage: Waiting, reason: "CertificatesInvalid", message: "the Secret team/east-ca belongs to another object: delete it, then it is created again"},
		"control plane is starting": {
			in:    workerOf(t, func(in *Input) { in.Cluster.Status.Initialization.ControlPlaneInitialized = nil }),
			stage: Waiting, reason: "WaitingForControlPlaneInitialized", message: "the control plane of Cluster east is not initialized yet",
		},
		"worker without kubeconfig":                         {in: workerOf(t, func(in *Input) { in.Kubeconfig = nil }), stage: Waiting, reason: "WaitingForControlPlaneInitialized", message: "Secret team/east-kubeconfig of the control plane does not exist yet"},
		"kubeconfig of the user":                            {in: workerOf(t, func(in *Input) { in.Kubeconfig.OwnerReferences = nil }), stage: Waiting, reason: "KubeconfigInvalid", message: "the Secret team/east-kubeconfig belongs to another object: delete it, then it is created again"},
		"data exists":                                       {in: controlPlaneOf(t, withData), stage: Keeping},
		"data of another LabConfig":                         {in: controlPlaneOf(t, withForeignData), stage: Waiting, reason: "SecretConflict", message: "Secret team/east-1-bootstrap-data exists and belongs to another object: delete it, then the bootstrap data is written"},
		"worker that has not joined: the token is extended": {in: workerOf(t, withData), stage: Keeping, token: true},
		"worker that has joined":                            {in: workerOf(t, withData, func(in *Input) { in.Machine.Status.NodeRef.Name = "east-1" }), stage: Keeping},
		"worker while the kubeconfig is missing":            {in: workerOf(t, withData, func(in *Input) { in.Kubeconfig = nil }), stage: Keeping},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(test.in)
			if diff := cmp.Diff([]any{test.stage, test.reason, test.message, test.token}, []any{got.Stage, got.Reason, got.Message, got.Token}); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBootstrapConfig_DataSecret is named after the rule of Cluster API.
func TestBootstrapConfig_DataSecret(t *testing.T) {
	yes := true
	in := controlPlaneOf(t)
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "east-1-bootstrap-data", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "east"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "lab.fleet-hub.io/v1alpha1", Kind: "LabConfig", Name: "east-1", UID: "c", Controller: &yes,
			}},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": []byte("text")},
	}
	if diff := cmp.Diff(want, newSecret(in, []byte("text"))); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	long := in.Config.DeepCopy()
	long.Name = strings.Repeat("a", 253)
	if name := DataSecret(long); len(name) > 63 || name != DataSecret(long) {
		t.Errorf("the name %q is too long or changes", name)
	}
}
