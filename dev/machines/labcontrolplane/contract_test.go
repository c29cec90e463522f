package labcontrolplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

// The tests of this file are named after the rules of Cluster API's contract for control planes. Those about the kinds
// themselves are in package api, those about Secrets in package clustersecrets.

// statusOf returns the status that a decision reports.
func statusOf(in Input) api.LabControlPlaneStatus {
	controlPlane := in.ControlPlane.DeepCopy()
	setStatus(in, Decide(in), controlPlane)
	return controlPlane.Status
}

func TestControlPlane_Endpoint(t *testing.T) {
	out := Decide(input(t, func(in *Input) { in.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} }))
	if out.Stage != Waiting || out.NewKubeconfig || len(out.Create) > 0 {
		t.Errorf("without an endpoint: %+v", out)
	}
}

func TestControlPlane_Replicas(t *testing.T) {
	zero, one := int32(0), int32(1)
	counters := func(status api.LabControlPlaneStatus) []*int32 {
		return []*int32{status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpToDateReplicas}
	}
	healthy := func(in *Input) {
		for _, condition := range []string{"Ready", "Available"} {
			in.Machine.Status.Conditions = append(in.Machine.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
		}
	}
	tests := map[string]struct {
		in   Input
		want []*int32
	}{
		"no Machine":                  {input(t), []*int32{&zero, &zero, &zero, &zero}},
		"Machine that starts":         {input(t, withMachine(t)), []*int32{&one, &zero, &zero, &one}},
		"Machine that is available":   {input(t, withMachine(t), healthy), []*int32{&one, &one, &one, &one}},
		"Machine of another version":  {input(t, withMachine(t), healthy, func(in *Input) { in.Machine.Spec.Version = "v1.35.0" }), []*int32{&one, &one, &one, &zero}},
		"Machine of another template": {input(t, withMachine(t), healthy, func(in *Input) { in.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "large" }), []*int32{&one, &one, &one, &zero}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if diff := cmp.Diff(test.want, counters(status)); diff != "" {
				t.Errorf("replicas, ready, available, up to date (-want +got):\n%s", diff)
			}
			if want := "cluster.x-k8s.io/cluster-name=east,cluster.x-k8s.io/control-plane-name=east-cp"; status.Selector != want {
				t.Errorf("selector %s, want %s", status.Selector, want)
			}
		})
	}
}

func TestControlPlane_Version(t *testing.T) {
	in := input(t, withMachine(t), answering)
	in.Server.Version = "v1.36.4"
	status := statusOf(in)
	if diff := cmp.Diff([]clusterv1.StatusVersion{{Version: "v1.36.4", Replicas: 1}}, status.Versions); diff != "" || status.Version != "v1.36.4" {
		t.Errorf("version %s, versions (-want +got):\n%s", status.Version, diff)
	}
	if status := statusOf(input(t)); status.Version != "" || len(status.Versions) > 0 {
		t.Errorf("without a Machine: %s, %v", status.Version, status.Versions)
	}
	if got := in.Machine.Spec.Version; got != "v1.36.3" {
		t.Errorf("the Machine has version %s, want the prefix v", got)
	}
}

func TestControlPlane_Machines(t *testing.T) {
	seconds := int32(10)
	in := input(t, func(in *Input) { in.ControlPlane.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = &seconds })
	yes := true
	labels := map[string]string{
		"cluster.x-k8s.io/cluster-name": "east", "cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": "east-cp", "tier": "gold",
	}
	want := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "east-cp-83878", Labels: labels,
			Annotations:     map[string]string{"note": "a", "lab.fleet-hub.io/propagated": "annotation:note,label:tier"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: group + "/v1alpha1", Kind: "LabControlPlane", Name: "east-cp", UID: "p", Controller: &yes}},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: "east", Version: "v1.36.3",
			Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LabConfig", Name: "east-cp-83878"}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LabMachine", Name: "east-cp-83878"},
			Deletion:          clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: &seconds},
		},
	}
	if diff := cmp.Diff(want, newMachine(in)); diff != "" {
		t.Errorf("Machine (-want +got):\n%s", diff)
	}
	part := newLabMachine(in)
	if diff := cmp.Diff(labels, part.Labels); diff != "" {
		t.Errorf("labels of the LabMachine (-want +got):\n%s", diff)
	}
	if part.Annotations[clusterv1.TemplateClonedFromNameAnnotation] != "small" || part.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] != "LabMachineTemplate."+group {
		t.Errorf("annotations of the LabMachine: %v", part.Annotations)
	}
	if metav1.GetControllerOf(part) != nil || metav1.GetControllerOf(newLabConfig(in)) != nil {
		t.Error("an object of the Machine has a controller already")
	}
	in.ControlPlane.Name = strings.Repeat("a", 253)
	if name := MachineName(in.ControlPlane); len(name) > 63 {
		t.Errorf("the name has %d characters, which no label of a Node can have", len(name))
	}
}

func TestControlPlane_InitializationCompleted(t *testing.T) {
	tests := map[string]struct {
		in   Input
		want bool
	}{
		"before the first answer": {input(t, withMachine(t), silent), false},
		"at the first answer":     {input(t, withMachine(t), answering), true},
		"later without an answer": {input(t, withMachine(t), silent, initialized), true},
		"while being deleted":     {input(t, withMachine(t), initialized, deleted), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			initialized := statusOf(test.in).Initialization.ControlPlaneInitialized
			if got := initialized != nil && *initialized; got != test.want {
				t.Errorf("initialized: %t, want %t", got, test.want)
			}
		})
	}
}

func TestControlPlane_Conditions(t *testing.T) {
	want := []metav1.Condition{{
		Type: "Available", Status: metav1.ConditionTrue, Reason: "Available", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(someDay),
	}}
	if diff := cmp.Diff(want, statusOf(input(t, withMachine(t), answering)).Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestMetadataPropagation(t *testing.T) {
	in := input(t, withMachine(t))
	in.Machine.Labels["own"], in.Machine.Annotations["own"] = "kept", "kept"
	in.ControlPlane.Spec.MachineTemplate.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{
		"zone": "b", clusterv1.ClusterNameLabel: "another", // the labels of Cluster API win
	}}
	propagate(in, in.Machine)
	labels := map[string]string{
		"cluster.x-k8s.io/cluster-name": "east", "cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": "east-cp", "zone": "b", "own": "kept",
	}
	if diff := cmp.Diff(labels, in.Machine.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	annotations := map[string]string{"own": "kept", "lab.fleet-hub.io/propagated": "label:cluster.x-k8s.io/cluster-name,label:zone"}
	if diff := cmp.Diff(annotations, in.Machine.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestUpToDatePropagation(t *testing.T) {
	in := input(t, withMachine(t))
	in.Machine.Spec.Version = "v1.35.0"
	setUpToDate(in, in.Machine)
	want := []metav1.Condition{{
		Type: "UpToDate", Status: metav1.ConditionFalse, Reason: "NotUpToDate", LastTransitionTime: metav1.NewTime(someDay),
		Message: "the Machine has version v1.35.0, the control plane wants v1.36.3. It is not replaced, because the data of the cluster would be lost: create another Cluster",
	}}
	if diff := cmp.Diff(want, in.Machine.Status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
