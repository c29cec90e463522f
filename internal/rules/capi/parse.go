package capi

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Names of Cluster API.
const (
	// Group is the API group of Cluster API.
	Group = "cluster.x-k8s.io"
	// annotationPaused has the same meaning as spec.paused.
	annotationPaused = "cluster.x-k8s.io/paused"
	// annotationForMove is set by clusterctl move on objects that it deletes here after it created them elsewhere.
	annotationForMove = "clusterctl.cluster.x-k8s.io/delete-for-move"
)

// Versions returns the versions that Parse understands, the preferred one first.
func Versions() []string { return []string{"v1beta2", "v1beta1"} }

// maxLabels is the number of labels that are copied from a Cluster of Cluster API. A registration has the same limit.
const maxLabels = 64

// Cluster contains what the hub needs of a Cluster of Cluster API. Its labels are those for the Cluster of Fleet, with
// that of its ClusterClass. Its
// other metadata is limited to its identity.
type Cluster struct {
	metav1.ObjectMeta

	// Values are for the templates of Bundles. VariablesLeftOut means that some variables are not among them.
	Values           map[string]any
	VariablesLeftOut bool
	// LabelsLeftOut means that it has more labels than a Cluster of Fleet gets.
	LabelsLeftOut bool
	// Selectable are its labels as the selector of the configuration sees them.
	Selectable map[string]string
	// Paused means that no controller may change anything that belongs to it.
	Paused bool
	// ForMove means that it is deleted because it was moved to another management cluster.
	ForMove bool
	// Initialized means that its control plane has answered.
	Initialized bool
	// Join is how it asks to be joined.
	Join Join
	// ControlPlane is the object that manages its control plane. It may be empty.
	ControlPlane Reference
}

// Reference names an object in the namespace of a Cluster.
type Reference struct{ Group, Kind, Name string }

// Parse reads a Cluster of Cluster API, in version v1beta1 or v1beta2. A field with an unexpected type counts as
// missing. What it returns is bounded, however long the object is.
func Parse(object *unstructured.Unstructured) *Cluster {
	annotations := object.GetAnnotations()
	_, paused := annotations[annotationPaused]
	_, forMove := annotations[annotationForMove]
	spec := field(object.Object, "spec")
	c := &Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
			ResourceVersion: object.GetResourceVersion(), DeletionTimestamp: object.GetDeletionTimestamp(),
		},
		Paused: paused || isTrue(spec, "paused"), ForMove: forMove, Join: joinOf(annotations),
		Initialized: isInitialized(field(object.Object, "status")), ControlPlane: referenceIn(field(spec, "controlPlaneRef")),
	}
	c.Labels, c.Selectable, c.LabelsLeftOut = labelsOf(object.GetLabels())
	class := classOf(c.Namespace, field(spec, "topology"))
	if id := ClassID(c.Namespace, class); id != "" {
		c.Labels[fleet.LabelCAPIClass] = id
	}
	c.Values, c.VariablesLeftOut = valuesOf(spec, class)
	return c
}

// labelsOf returns the labels for the Cluster of Fleet, and those for the selector: the first ones, sorted by key,
// without those of Fleet and of GitOps tools.
func labelsOf(all map[string]string) (copied, selectable map[string]string, leftOut bool) {
	copied, selectable = map[string]string{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			continue
		}
		if len(selectable) < 2*maxLabels {
			selectable[key] = value
		}
		switch {
		case isOfATool(key):
		case len(copied) >= maxLabels:
			leftOut = true
		default:
			copied[key] = value
		}
	}
	return copied, selectable, leftOut
}

// isOfATool reports whether Fleet or a GitOps tool marks the objects that it manages with this label. A tool deletes an object with
// its label that is not in its source, as the Cluster of Fleet would be.
func isOfATool(key string) bool {
	switch prefix, _, _ := strings.Cut(key, "/"); prefix {
	case "fleet.cattle.io", "management.cattle.io", "objectset.rio.cattle.io", "argocd.argoproj.io",
		"kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "kapp.k14s.io":
		return true
	}
	return key == "app.kubernetes.io/instance" || key == "app.kubernetes.io/managed-by"
}

// isInitialized reads the field of v1beta2, the condition of both versions, and the field of v1beta1.
func isInitialized(status map[string]any) bool {
	if isTrue(field(status, "initialization"), "controlPlaneInitialized") || isTrue(status, "controlPlaneReady") {
		return true
	}
	conditions, _ := status["conditions"].([]any)
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["type"] == "ControlPlaneInitialized" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// referenceIn reads a reference: v1beta2 has the group, v1beta1 has the group and version.
func referenceIn(ref map[string]any) Reference {
	group, isText := ref["apiGroup"].(string)
	if !isText {
		version, _ := ref["apiVersion"].(string)
		group, _, _ = strings.Cut(version, "/")
	}
	kind, name := text(ref, "kind"), text(ref, "name")
	if len(group)+len(kind)+len(name) > 3*validation.DNS1123SubdomainMaxLength {
		return Reference{}
	}
	return Reference{Group: group, Kind: kind, Name: name}
}

func field(of map[string]any, name string) map[string]any {
	inner, _ := of[name].(map[string]any)
	return inner
}

func isTrue(of map[string]any, name string) bool {
	value, _ := of[name].(bool)
	return value
}

// Validity is the time in which a credential is valid. A zero time is not known.
type Validity struct{ From, Until time.Time }
