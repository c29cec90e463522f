package targeting

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrMappingIncomplete means that a mapping lacks one of its selectors and therefore does nothing.
var ErrMappingIncomplete = errors.New("both bundleSelector and namespaceSelector must be set; as it is, the mapping does nothing")

// Mapping is a BundleNamespaceMapping ready for use: it lets Bundles of its namespace go to the Clusters of others,
// if both its selectors are set.
type Mapping struct {
	workspace string
	// bundles is nil if any Bundle may be meant; namespaces is nil if nobody can say where they may go.
	bundles, namespaces labels.Selector
	err                 error
}

// NewMapping prepares a mapping. What is wrong with it is told by Err.
func NewMapping(m *fleet.BundleNamespaceMapping) Mapping {
	out := Mapping{workspace: m.Namespace}
	if m.BundleSelector == nil || m.NamespaceSelector == nil {
		out.err = fmt.Errorf("BundleNamespaceMapping %s: %w", m.Name, ErrMappingIncomplete)
		return out
	}
	var failures [2]error
	out.bundles, failures[0] = compile("bundleSelector", m.BundleSelector)
	out.namespaces, failures[1] = compile("namespaceSelector", m.NamespaceSelector)
	for _, err := range failures {
		if err != nil {
			out.err = fmt.Errorf("BundleNamespaceMapping %s: %w", m.Name, err)
			break
		}
	}
	return out
}

// Workspace is the namespace of the mapping and of the Bundles it takes.
func (m Mapping) Workspace() string { return m.workspace }

// Err says what is wrong: it wraps ErrMappingIncomplete or ErrSelector; nil if nothing is.
func (m Mapping) Err() error { return m.err }

// Broken says whether nobody can say what the mapping means, because a selector does not parse.
func (m Mapping) Broken() bool { return errors.Is(m.err, ErrSelector) }

// Takes says whether the mapping concerns a Bundle; in doubt, it does. The Bundle of an agent never leaves its
// workspace: a Cluster of the same name in another one is not meant.
func (m Mapping) Takes(bundle *fleet.Bundle) bool {
	if bundle.Namespace != m.workspace || errors.Is(m.err, ErrMappingIncomplete) ||
		bundle.Annotations[fleet.AnnotationSetID] == names.AgentBundleSet {
		return false
	}
	return m.bundles == nil || m.bundles.Matches(labels.Set(bundle.Labels))
}

// LeadsTo says whether the mapping is known to lead to the Clusters of a namespace, which has these labels.
func (m Mapping) LeadsTo(namespace metav1.Object) bool {
	return m.err == nil && m.namespaces.Matches(labels.Set(namespace.GetLabels()))
}

// Reach is in which namespaces a Bundle looks for Clusters.
type Reach struct {
	// Namespaces are sorted; the Bundle's own is among them.
	Namespaces []string
	// Unknown, if set, says why there may be others: a mapping that takes the Bundle does not parse. It wraps
	// ErrSelector.
	Unknown error
}

// Knows says whether the Clusters of a namespace are within reach.
func (r Reach) Knows(namespace string) bool {
	_, found := slices.BinarySearch(r.Namespaces, namespace)
	return found
}

// NewReach finds the namespaces with the Clusters a Bundle may go to: its own, and those its mappings lead to.
func NewReach(bundle *fleet.Bundle, mappings []Mapping, namespaces []*corev1.Namespace) Reach {
	out := Reach{Namespaces: []string{bundle.Namespace}}
	for _, mapping := range mappings {
		if !mapping.Takes(bundle) {
			continue
		}
		if mapping.Broken() && (out.Unknown == nil || mapping.err.Error() < out.Unknown.Error()) {
			out.Unknown = mapping.err
		}
		for _, namespace := range namespaces {
			if mapping.LeadsTo(namespace) {
				out.Namespaces = append(out.Namespaces, namespace.Name)
			}
		}
	}
	slices.Sort(out.Namespaces)
	out.Namespaces = slices.Compact(out.Namespaces)
	return out
}
