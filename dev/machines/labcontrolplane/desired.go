package labcontrolplane

import (
	"maps"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/plane/build"
)

// propagatedAnnotation lists the keys of labels and annotations that come from the template, so that keys that leave the
// template can be removed.
const propagatedAnnotation = "lab.fleet-hub.io/propagated"

// MachineName returns the name of the Machine, its LabMachine and its LabConfig.
func MachineName(controlPlane *api.LabControlPlane) string {
	return name.SafeConcatName(controlPlane.Name, name.Hex(string(controlPlane.UID), 5))
}

// labelsOf returns the labels by which Cluster API finds a Machine of a control plane.
func labelsOf(in Input) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel:             in.Cluster.Name,
		clusterv1.MachineControlPlaneLabel:     "",
		clusterv1.MachineControlPlaneNameLabel: name.SafeConcatName(in.ControlPlane.Name),
	}
}

// selector returns status.selector.
func selector(in Input) string {
	labels := labelsOf(in)
	return clusterv1.ClusterNameLabel + "=" + labels[clusterv1.ClusterNameLabel] + "," +
		clusterv1.MachineControlPlaneNameLabel + "=" + labels[clusterv1.MachineControlPlaneNameLabel]
}

// missing returns the objects of the Machine that do not exist.
func missing(in Input) []metav1.Object {
	var objects []metav1.Object
	if in.LabMachine == nil {
		objects = append(objects, newLabMachine(in))
	}
	if in.LabConfig == nil {
		objects = append(objects, newLabConfig(in))
	}
	return append(objects, newMachine(in))
}

func newMachine(in Input) *clusterv1.Machine {
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.ControlPlane.Namespace, Name: MachineName(in.ControlPlane),
			OwnerReferences: []metav1.OwnerReference{contract.Controller(in.ControlPlane, "LabControlPlane")},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName:       in.Cluster.Name,
			Version:           version(in.ControlPlane),
			Bootstrap:         clusterv1.Bootstrap{ConfigRef: reference(in, "LabConfig")},
			InfrastructureRef: reference(in, "LabMachine"),
		},
	}
	propagate(in, machine)
	setDeletion(in.ControlPlane, machine)
	return machine
}

// version returns the version in the form that Cluster API requires.
func version(controlPlane *api.LabControlPlane) string {
	return "v" + strings.TrimPrefix(controlPlane.Spec.Version, "v")
}

func reference(in Input, kind string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: api.GroupVersion().Group, Kind: kind, Name: MachineName(in.ControlPlane)}
}

func newLabMachine(in Input) *api.LabMachine {
	template := in.Template.Spec.Template
	machine := &api.LabMachine{ObjectMeta: partMeta(in, template.ObjectMeta), Spec: *template.Spec.DeepCopy()}
	machine.Annotations[clusterv1.TemplateClonedFromNameAnnotation] = in.Template.Name
	machine.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] = api.GroupVersion().WithKind("LabMachineTemplate").GroupKind().String()
	propagate(in, machine)
	return machine
}

func newLabConfig(in Input) *api.LabConfig {
	config := &api.LabConfig{ObjectMeta: partMeta(in, clusterv1.ObjectMeta{}), Spec: *in.ControlPlane.Spec.Config.DeepCopy()}
	propagate(in, config)
	return config
}

// partMeta returns the metadata of an object that belongs to the LabControlPlane until the core gives it to the Machine.
func partMeta(in Input, template clusterv1.ObjectMeta) metav1.ObjectMeta {
	owner := contract.Controller(in.ControlPlane, "LabControlPlane")
	owner.Controller = nil
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	return metav1.ObjectMeta{
		Namespace: in.ControlPlane.Namespace, Name: MachineName(in.ControlPlane),
		Labels: maps.Clone(template.Labels), Annotations: annotations, OwnerReferences: []metav1.OwnerReference{owner},
	}
}

// propagate sets the labels and annotations of the template, and removes those that have left it.
func propagate(in Input, object metav1.Object) {
	template := in.ControlPlane.Spec.MachineTemplate.ObjectMeta
	labels, annotations := orEmpty(object.GetLabels()), orEmpty(object.GetAnnotations())
	for key := range strings.SplitSeq(annotations[propagatedAnnotation], ",") {
		if label, isLabel := strings.CutPrefix(key, "label:"); isLabel {
			delete(labels, label)
		}
		if annotation, isAnnotation := strings.CutPrefix(key, "annotation:"); isAnnotation {
			delete(annotations, annotation)
		}
	}
	maps.Copy(labels, template.Labels)
	maps.Copy(labels, labelsOf(in))
	maps.Copy(annotations, template.Annotations)
	delete(annotations, propagatedAnnotation)
	if keys := propagated(template); keys != "" {
		annotations[propagatedAnnotation] = keys
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

func propagated(template clusterv1.ObjectMeta) string {
	var keys []string
	for key := range template.Labels {
		keys = append(keys, "label:"+key)
	}
	for key := range template.Annotations {
		keys = append(keys, "annotation:"+key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

// setDeletion sets the timeouts of the Machine's deletion.
func setDeletion(controlPlane *api.LabControlPlane, machine *clusterv1.Machine) {
	wanted := controlPlane.Spec.MachineTemplate.Spec.Deletion
	machine.Spec.Deletion.NodeDrainTimeoutSeconds = wanted.NodeDrainTimeoutSeconds
	machine.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = wanted.NodeVolumeDetachTimeoutSeconds
	if wanted.NodeDeletionTimeoutSeconds != nil { // the core has a default
		machine.Spec.Deletion.NodeDeletionTimeoutSeconds = wanted.NodeDeletionTimeoutSeconds
	}
}

// runningVersion returns the version to report for a Machine: that of the API server, if it has answered.
func runningVersion(in Input) string {
	switch {
	case in.Server.Version != "":
		return in.Server.Version
	case in.ControlPlane.Status.Version != "":
		return in.ControlPlane.Status.Version
	default:
		return build.Version
	}
}
