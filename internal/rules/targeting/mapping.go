package targeting

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// ErrMappingIncomplete means that a mapping lacks one of its selectors and therefore does nothing.
var ErrMappingIncomplete = errors.New("both bundleSelector and namespaceSelector must be set; as it is, the mapping does nothing")

// Mapping is a parsed BundleNamespaceMapping. It lets Bundles of its namespace go to the Clusters of other namespaces,
// if both selectors are set.
type Mapping struct {
	workspace string
	// bundles is nil if its selector is invalid, so that any Bundle may be selected. namespaces is nil if its selector
	// is invalid.
	bundles, namespaces labels.Selector
	err                 error
}

// NewMapping parses a mapping. Err returns what is wrong with it.
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

// Workspace returns the namespace of the mapping, which is also that of its Bundles.
func (m Mapping) Workspace() string { return m.workspace }

// Err returns what is wrong with the mapping, or nil. The error wraps ErrMappingIncomplete or ErrSelector.
func (m Mapping) Err() error { return m.err }

// Broken reports whether a selector is invalid, so that the effect of the mapping is unknown.
func (m Mapping) Broken() bool { return errors.Is(m.err, ErrSelector) }

// Takes reports whether the mapping selects a Bundle. If that is unknown, it returns true. It never selects the Bundle
// of an agent, because a Cluster of the same name in another workspace is a different cluster.
func (m Mapping) Takes(bundle *fleet.Bundle) bool {
	if bundle.Namespace != m.workspace || errors.Is(m.err, ErrMappingIncomplete) ||
		bundle.Annotations[fleet.AnnotationSetID] == names.AgentBundleSet {
		return false
	}
	return m.bundles == nil || m.bundles.Matches(labels.Set(bundle.Labels))
}

// LeadsTo reports whether the mapping selects a namespace that accepts its Bundles. It returns false if the mapping is
// invalid.
func (m Mapping) LeadsTo(namespace metav1.Object) bool {
	return m.selects(namespace) && Accepts(namespace, m.workspace)
}

// RefusedBy reports whether the mapping selects a namespace that does not accept its Bundles.
func (m Mapping) RefusedBy(namespace metav1.Object) bool {
	return m.selects(namespace) && !Accepts(namespace, m.workspace)
}

func (m Mapping) selects(namespace metav1.Object) bool {
	return m.err == nil && m.namespaces.Matches(labels.Set(namespace.GetLabels()))
}

// Accepts reports whether Bundles of a workspace may go to the Clusters of a namespace, according to the annotation
// annotation.AcceptBundlesFrom of the namespace. Without the annotation they may.
func Accepts(namespace metav1.Object, workspace string) bool {
	list, limited := namespace.GetAnnotations()[annotation.AcceptBundlesFrom]
	if !limited || namespace.GetName() == workspace {
		return true
	}
	return strings.TrimSpace(list) != "none" && slices.ContainsFunc(strings.Split(list, ","), func(entry string) bool {
		entry = strings.TrimSpace(entry)
		return entry == workspace || entry == "*"
	})
}

// mostRefusing limits how many namespaces a message names.
const mostRefusing = 10

// RefusedMessage says which namespaces do not accept the Bundles of a workspace, and how to change that. It is empty
// if there are no such namespaces.
func RefusedMessage(workspace string, namespaces []string) string {
	if len(namespaces) == 0 {
		return ""
	}
	named := slices.Sorted(slices.Values(namespaces))
	more := ""
	if len(named) > mostRefusing {
		more, named = fmt.Sprintf(" and %d more", len(named)-mostRefusing), named[:mostRefusing]
	}
	return fmt.Sprintf("workspaces that do not accept Bundles of %s: %s%s. "+
		"To accept them, an owner of each Namespace adds %s to its annotation: kubectl annotate namespace %s --overwrite %s=OTHERS,%s",
		workspace, strings.Join(named, ", "), more, workspace, named[0], annotation.AcceptBundlesFrom, workspace)
}

// Reach lists the namespaces in which a Bundle looks for Clusters.
type Reach struct {
	// Namespaces are sorted and include the Bundle's own.
	Namespaces []string
	// Unknown, if set, says why there may be more namespaces: a mapping that selects the Bundle is invalid. It wraps
	// ErrSelector.
	Unknown error
	// Refused are the mapped namespaces that do not accept the Bundle, sorted.
	Refused []string
	// closed are all namespaces that do not accept Bundles of this workspace.
	closed map[string]bool
}

// Excludes reports whether no mapping can bring the Clusters of a namespace within reach.
func (r Reach) Excludes(namespace string) bool { return r.closed[namespace] }

// Knows reports whether the Clusters of a namespace are within reach.
func (r Reach) Knows(namespace string) bool {
	_, found := slices.BinarySearch(r.Namespaces, namespace)
	return found
}

// NewReach returns the namespaces of the Clusters that a Bundle may go to: its own, and those that its mappings lead
// to.
func NewReach(bundle *fleet.Bundle, mappings []Mapping, namespaces []*corev1.Namespace) Reach {
	out := Reach{Namespaces: []string{bundle.Namespace}, closed: map[string]bool{}}
	for _, namespace := range namespaces {
		if !Accepts(namespace, bundle.Namespace) {
			out.closed[namespace.Name] = true
		}
	}
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
			if mapping.RefusedBy(namespace) {
				out.Refused = append(out.Refused, namespace.Name)
			}
		}
	}
	slices.Sort(out.Namespaces)
	slices.Sort(out.Refused)
	out.Namespaces, out.Refused = slices.Compact(out.Namespaces), slices.Compact(out.Refused)
	return out
}
