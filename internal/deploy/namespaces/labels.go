package namespaces

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// podSecurityPrefix is the prefix of labels that only the cluster's admin controls. They are never set from a
// bundle and never removed.
const podSecurityPrefix = "pod-security.kubernetes.io/"

// namespaceManager returns the field manager for the labels and annotations that a BundleDeployment sets on its
// namespace. Several BundleDeployments may share a namespace, and each removes only its own. If the name of the
// manager changes, labels of the old one stay behind.
func namespaceManager(bundleDeployment string) string {
	return names.SafeConcat(access.FieldManager, bundleDeployment)
}

// wantedNamespace returns the release's namespace with the labels and annotations of the options, and whether it
// differs from current. Values of other writers stay. Values that manager set before and that are no longer wanted
// are removed.
func wantedNamespace(current *corev1.Namespace, options *fleet.BundleDeploymentOptions, manager string) (*corev1.Namespace, bool) {
	wanted := current.DeepCopy()
	wanted.Labels = withGiven(current.Labels, options.NamespaceLabels, ownKeys(current, manager, "f:labels"))
	wanted.Annotations = withGiven(current.Annotations, options.NamespaceAnnotations, ownKeys(current, manager, "f:annotations"))
	changed := !equality.Semantic.DeepEqual(current.Labels, wanted.Labels) ||
		!equality.Semantic.DeepEqual(current.Annotations, wanted.Annotations)
	return wanted, changed
}

func withGiven(current, given map[string]string, own []string) map[string]string {
	wanted := maps.Clone(current)
	for _, key := range own {
		if !isReserved(key) {
			delete(wanted, key)
		}
	}
	for key, value := range given {
		if isReserved(key) {
			continue
		}
		if wanted == nil {
			wanted = map[string]string{}
		}
		wanted[key] = value
	}
	return wanted
}

// undisputed returns the options of a BundleDeployment with the labels and annotations that others have decided. A value of another
// BundleDeployment counts only while it is in place: its account may lack the right to set it.
func undisputed(bd *fleet.BundleDeployment, others []*fleet.BundleDeployment, current *corev1.Namespace) *fleet.BundleDeploymentOptions {
	options := bd.Spec.Options
	for _, other := range others {
		if comesFirst(other, bd) {
			options.NamespaceLabels = yielding(options.NamespaceLabels, other.Spec.Options.NamespaceLabels, current.Labels)
			options.NamespaceAnnotations = yielding(options.NamespaceAnnotations, other.Spec.Options.NamespaceAnnotations, current.Annotations)
		}
	}
	return &options
}

// comesFirst reports whether another BundleDeployment uses the same namespace and decides what both set there.
func comesFirst(other, bd *fleet.BundleDeployment) bool {
	return other.Name < bd.Name && other.DeletionTimestamp == nil && placement.NamespaceOf(&other.Spec.Options) == placement.NamespaceOf(&bd.Spec.Options)
}

// disputed reports whether two deployments in a namespace give a label or an annotation different values.
func disputed(a, b *fleet.BundleDeploymentOptions) bool {
	return differ(a.NamespaceLabels, b.NamespaceLabels) || differ(a.NamespaceAnnotations, b.NamespaceAnnotations)
}

func differ(a, b map[string]string) bool {
	for key, value := range a {
		if other, both := b[key]; both && other != value {
			return true
		}
	}
	return false
}

// yielding returns given with the values of other that are in place.
func yielding(given, other, current map[string]string) map[string]string {
	wanted := maps.Clone(given)
	for key, value := range other {
		_, both := given[key]
		if now, there := current[key]; both && there && now == value {
			wanted[key] = value
		}
	}
	return wanted
}

// isReserved reports whether a key may not be set or removed by a bundle.
func isReserved(key string) bool {
	return key == corev1.LabelMetadataName || strings.HasPrefix(key, podSecurityPrefix)
}

// ownKeys returns the labels or annotations that a manager set, according to the managed fields.
func ownKeys(namespace *corev1.Namespace, manager, field string) []string {
	var own []string
	for _, entry := range namespace.ManagedFields {
		if entry.Manager != manager || entry.FieldsV1 == nil {
			continue
		}
		var noted struct {
			Metadata map[string]map[string]any `json:"f:metadata"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &noted); err != nil {
			continue // unknown format: remove nothing
		}
		for key := range noted.Metadata[field] {
			if name, isField := strings.CutPrefix(key, "f:"); isField {
				own = append(own, name)
			}
		}
	}
	return own
}

// inherited returns the given values in place that manager owns or may take over, and whether it has to take over some: only Rancher
// Fleet's agent has set them, whose field manager is access.FieldManager.
func inherited(namespace *corev1.Namespace, field string, given, current map[string]string, manager string) (values map[string]string, some bool) {
	owners := map[string][]string{}
	for _, entry := range namespace.ManagedFields {
		for _, key := range ownKeys(namespace, entry.Manager, field) {
			owners[key] = append(owners[key], entry.Manager)
		}
	}
	values = map[string]string{}
	for key, value := range given {
		alone := slices.Equal(slices.Compact(owners[key]), []string{access.FieldManager})
		if isReserved(key) || current[key] != value || !alone && !slices.Contains(owners[key], manager) {
			continue
		}
		values[key], some = value, some || alone
	}
	return values, some
}

// checkTargetNamespace enforces the selector of allowed namespaces. namespace is nil if it does not exist. The
// error is written into the status.
func checkTargetNamespace(name string, namespace *corev1.Namespace, selector *metav1.LabelSelector) error {
	if selector == nil {
		return nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return outcome.Because(conditions.ReasonSelectorInvalid, fmt.Errorf("reading allowedTargetNamespaceSelector: %w", err))
	}
	itself := outcome.CoreObject("namespaces", "", name)
	switch {
	case namespace == nil:
		return outcome.Until(itself, outcome.Because(conditions.ReasonNamespaceMissing, fmt.Errorf("target namespace %s does not exist on downstream cluster", name)))
	case !compiled.Matches(labels.Set(namespace.Labels)):
		return outcome.Until(itself, outcome.Because(conditions.ReasonNamespaceRefused, fmt.Errorf("target namespace %s does not match AllowedTargetNamespaceSelector (%s)", name, compiled)))
	}
	return nil
}
