package labcontrolplane

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
)

const group = "lab.fleet-hub.io"

// someDay is the time of the tests.
var someDay = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// must returns a value, or ends the test.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// input returns a control plane whose Machine can be created.
func input(t *testing.T, changes ...func(*Input)) Input {
	t.Helper()
	yes := true
	in := Input{
		ControlPlane: &api.LabControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-cp", UID: "p", Finalizers: []string{Finalizer}, Generation: 3},
			Spec: api.LabControlPlaneSpec{
				Version: "1.36.3",
				MachineTemplate: api.ControlPlaneMachineTemplate{
					ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"tier": "gold"}, Annotations: map[string]string{"note": "a"}},
					Spec: api.ControlPlaneMachineTemplateSpec{
						InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LabMachineTemplate", Name: "small"},
					},
				},
			},
		},
		Cluster: &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east"},
			Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 20001}},
			Status:     clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: &yes}},
		},
		Template: &api.LabMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "small"}},
		Now:      someDay,
	}
	in.CA = must(owner(in).NewCA(someDay))(t)
	in.Accounts = must(owner(in).NewAccounts())(t)
	for _, change := range changes {
		change(&in)
	}
	return in
}

// withMachine adds what a first decision creates.
func withMachine(t *testing.T) func(*Input) {
	t.Helper()
	return func(in *Input) {
		ca := must(owner(*in).ReadCA(in.CA))(t)
		in.Kubeconfig = must(owner(*in).NewKubeconfig(ca, clustersecrets.URL(in.Cluster.Spec.ControlPlaneEndpoint), someDay))(t)
		in.Machine, in.LabMachine, in.LabConfig = newMachine(*in), newLabMachine(*in), newLabConfig(*in)
		in.Machine.UID = "m"
		in.Template = nil
	}
}

func answering(in *Input) { in.Server = Server{Asked: true, Version: "v1.36.3"} }

func silent(in *Input) { in.Server = Server{Asked: true, Err: errors.New("connection refused")} }

func initialized(in *Input) {
	yes := true
	in.ControlPlane.Status.Initialization.ControlPlaneInitialized = &yes
}

func deleted(in *Input) { in.ControlPlane.DeletionTimestamp = &metav1.Time{Time: someDay} }

// describe returns an outcome in one line per fact.
func describe(out Outcome) string {
	lines := []string{string(out.Stage)}
	add := func(is bool, text string) {
		if is {
			lines = append(lines, text)
		}
	}
	add(out.NewCA, "new CA")
	add(out.NewAccounts, "new account key")
	add(out.NewKubeconfig, "new kubeconfig")
	for _, each := range out.Create {
		lines = append(lines, fmt.Sprintf("create %T", each))
	}
	add(out.DeleteMachine, "delete Machine")
	add(out.RemoveFinalizer, "remove finalizer")
	if out.Available != nil {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", out.Available.Type, out.Available.Status, out.Available.Reason, out.Available.Message))
	}
	add(out.After > 0, "again after "+out.After.String())
	return strings.Join(lines, "\n")
}

func TestDecide(t *testing.T) {
	yes := true
	const starting = "Available=False Starting: the API server has not answered yet. To see the state of the machine, run: kubectl describe machine -n team east-cp-83878"
	tests := map[string]struct {
		in   Input
		want string
	}{
		"no Cluster owns it yet": {input(t, func(in *Input) { in.Cluster = nil }), "Skipping"},
		"paused Cluster":         {input(t, func(in *Input) { in.Cluster.Spec.Paused = &yes }), "Skipping"},
		"paused while being deleted": {input(t, withMachine(t), deleted, func(in *Input) {
			in.ControlPlane.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}), "Skipping"},
		"no finalizer":   {input(t, func(in *Input) { in.ControlPlane.Finalizers = nil }), "Adopting"},
		"no keys":        {input(t, func(in *Input) { in.CA, in.Accounts = nil, nil }), "Securing\nnew CA\nnew account key"},
		"CA of the user": {input(t, func(in *Input) { in.CA.OwnerReferences, in.Accounts = nil, nil }), "Securing\nnew account key"},
		"CA of another control plane": {
			input(t, func(in *Input) { in.CA.OwnerReferences[0].UID = "x" }),
			"Waiting\nAvailable=False CertificatesInvalid: the Secret team/east-ca belongs to another object: delete it, then it is created again",
		},
		"no endpoint": {
			input(t, func(in *Input) { in.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} }),
			"Waiting\nAvailable=False WaitingForClusterInfrastructureReady: the infrastructure of Cluster east is not provisioned yet",
		},
		"nothing exists": {
			input(t),
			"Running\nnew kubeconfig\ncreate *api.LabMachine\ncreate *api.LabConfig\ncreate *v1beta2.Machine\n" + starting + "\nagain after 500ms",
		},
		"killed between LabMachine and Machine": {
			input(t, func(in *Input) { in.LabMachine = newLabMachine(*in) }),
			"Running\nnew kubeconfig\ncreate *api.LabConfig\ncreate *v1beta2.Machine\n" + starting + "\nagain after 500ms",
		},
		"version that machines cannot run": {
			input(t, func(in *Input) { in.ControlPlane.Spec.Version = "v1.99.0" }),
			`Waiting` + "\n" + `Available=False VersionNotAvailable: LabControlPlane east-cp wants Kubernetes "v1.99.0", but machines only run v1.36.3: set this version in the Cluster or its topology`,
		},
		"no template": {
			input(t, func(in *Input) { in.Template = nil }),
			"Waiting\nAvailable=False MachineTemplateInvalid: LabMachineTemplate team/small does not exist: create it",
		},
		"template of another kind": {
			input(t, func(in *Input) {
				in.Template = nil
				in.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.Kind = "DockerMachineTemplate"
				in.TemplateErr = CheckTemplate(in.ControlPlane)
			}),
			"Waiting\nAvailable=False MachineTemplateInvalid: spec.machineTemplate.spec.infrastructureRef refers to a DockerMachineTemplate of group lab.fleet-hub.io: refer to a LabMachineTemplate of group lab.fleet-hub.io",
		},
		"starting":     {input(t, withMachine(t), silent), "Running\n" + starting + "\nagain after 500ms"},
		"first answer": {input(t, withMachine(t), answering), "Running\nAvailable=True Available: \nagain after 15s"},
		"another version is wanted later": {
			input(t, withMachine(t), answering, initialized, func(in *Input) { in.ControlPlane.Spec.Version = "v1.37.0" }),
			`Running` + "\n" + `Available=True Available: LabControlPlane east-cp wants Kubernetes "v1.37.0", but machines only run v1.36.3: set this version in the Cluster or its topology` + "\nagain after 15s",
		},
		"does not answer any more": {
			input(t, withMachine(t), initialized, silent),
			"Running\nAvailable=False APIServerNotAnswering: the API server of the control plane does not answer: connection refused\nagain after 2s",
		},
		"not asked: the condition stays": {input(t, withMachine(t), initialized), "Running\nagain after 2s"},
		"kubeconfig expires soon": {
			input(t, withMachine(t), initialized, answering, func(in *Input) { in.Now = someDay.Add(29*time.Minute + 50*time.Second) }),
			"Running\nAvailable=True Available: \nagain after 10s",
		},
		"kubeconfig is renewed": {
			input(t, withMachine(t), initialized, answering, func(in *Input) { in.Now = someDay.Add(30 * time.Minute) }),
			"Running\nnew kubeconfig\nAvailable=True Available: \nagain after 15s",
		},
		"kubeconfig of the user": {
			input(t, withMachine(t), func(in *Input) { in.Kubeconfig.OwnerReferences = nil }),
			"Waiting\nAvailable=False KubeconfigInvalid: the Secret team/east-kubeconfig belongs to another object: delete it, then it is created again",
		},
		"Machine of somebody else": {
			input(t, withMachine(t), func(in *Input) { in.Machine.OwnerReferences = nil }),
			"Waiting\nAvailable=False NameConflict: Machine team/east-cp-83878 exists, but this control plane has not created it: delete it",
		},
		"LabConfig of somebody else": {
			input(t, withMachine(t), func(in *Input) { in.LabConfig.OwnerReferences = nil }),
			"Waiting\nAvailable=False NameConflict: LabConfig team/east-cp-83878 exists, but this control plane has not created it: delete it",
		},
		"LabMachine belongs to the Machine now": {
			input(t, withMachine(t), answering, func(in *Input) { in.LabMachine.OwnerReferences[0].UID = "m" }),
			"Running\nAvailable=True Available: \nagain after 15s",
		},
		"Machine is being deleted by the user": {
			input(t, withMachine(t), silent, initialized, func(in *Input) { in.LabMachine = nil; in.Machine.DeletionTimestamp = &metav1.Time{Time: someDay} }),
			"Running\nAvailable=False APIServerNotAnswering: the API server of the control plane does not answer: connection refused\nagain after 2s",
		},
		"deleted: the Machine first": {input(t, withMachine(t), deleted), "Deleting\ndelete Machine\nAvailable=False Deleting: "},
		"deleted: waits for the Machine": {
			input(t, withMachine(t), deleted, func(in *Input) { in.Machine.DeletionTimestamp = &metav1.Time{Time: someDay} }),
			"Deleting\nAvailable=False Deleting: Machine east-cp-83878 is being deleted",
		},
		"deleted: the Machine is gone":        {input(t, deleted), "Deleting\nremove finalizer"},
		"deleted: a Machine of somebody else": {input(t, withMachine(t), deleted, func(in *Input) { in.Machine.OwnerReferences = nil }), "Deleting\nremove finalizer"},
		"deleted without a Cluster":           {input(t, deleted, func(in *Input) { in.Cluster = nil }), "Deleting\nremove finalizer"},
		"deleted without finalizer":           {input(t, deleted, func(in *Input) { in.ControlPlane.Finalizers = nil }), "Skipping"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, describe(Decide(test.in))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShouldAsk_OnlyWhenAMachineMayAnswer(t *testing.T) {
	yes := true
	tests := map[string]struct {
		in   Input
		want bool
	}{
		"Machine and kubeconfig exist": {input(t, withMachine(t)), true},
		"no Machine":                   {input(t), false},
		"no kubeconfig":                {input(t, withMachine(t), func(in *Input) { in.Kubeconfig = nil }), false},
		"being deleted":                {input(t, withMachine(t), deleted), false},
		"paused":                       {input(t, withMachine(t), func(in *Input) { in.Cluster.Spec.Paused = &yes }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ShouldAsk(test.in); got != test.want {
				t.Errorf("ask: %t, want %t", got, test.want)
			}
		})
	}
}
