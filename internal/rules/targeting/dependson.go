package targeting

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxSteps limits a search for a cycle: a step is the comparison of a Bundle with one requirement of a selector. A workspace
// may have any number of Bundles, each with any number of dependencies, and every Bundle's next pass searches again.
const maxSteps = 1 << 18

// CircleMessage returns a message about a Bundle that depends on itself, or an empty string. all are the Bundles of its
// namespace.
func CircleMessage(bundle *fleet.Bundle, all []*fleet.Bundle) string {
	names := Circle(bundle, all)
	if len(names) == 0 {
		return ""
	}
	return "dependsOn: " + strings.Join(append(names, bundle.Name), " → ") +
		": each waits for the next one; remove one of these dependencies"
}

// Circle returns the shortest dependency cycle through a Bundle, among the Bundles of its namespace: the names of the
// Bundles on it, starting with the Bundle's own. It returns nil if the Bundle does not depend on itself, or if that would
// take too long to find out. The Bundles of a cycle wait for each other, so none is deployed to a cluster that does not
// have all of them already.
func Circle(bundle *fleet.Bundle, all []*fleet.Bundle) []string {
	s := &search{all: all, byName: make(map[string]*fleet.Bundle, len(all)), labels: map[string]labels.Set{}, left: maxSteps}
	for _, other := range all {
		s.byName[other.Name] = other
	}
	from := map[string]string{} // the name of the Bundle that depends on one, as it was found first
	for queue := []*fleet.Bundle{bundle}; len(queue) > 0; queue = queue[1:] {
		for _, next := range s.dependencies(queue[0]) {
			if next.Name == bundle.Name {
				return wayTo(queue[0].Name, bundle.Name, from)
			}
			if _, seen := from[next.Name]; !seen {
				from[next.Name] = queue[0].Name
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// wayTo returns the names from start to end.
func wayTo(end, start string, from map[string]string) []string {
	names := []string{end}
	for at := end; at != start; {
		at = from[at]
		names = append(names, at)
	}
	slices.Reverse(names)
	return names
}

// search finds the dependencies of Bundles of one namespace.
type search struct {
	all    []*fleet.Bundle
	byName map[string]*fleet.Bundle
	// labels are those that agents would see, by Bundle.
	labels map[string]labels.Set
	// left is the number of steps that the search may still take.
	left int
}

// dependencies returns the Bundles that a Bundle depends on, as its agents would find them. It skips a reference with
// an invalid selector or without name and selector. It also skips a reference that accepts the state WaitApplied,
// because that is satisfied without a deployment.
func (s *search) dependencies(bundle *fleet.Bundle) (found []*fleet.Bundle) {
	for i := range bundle.Spec.DependsOn {
		ref := &bundle.Spec.DependsOn[i]
		if s.left--; s.left < 0 {
			return found
		}
		if ref.Name == "" && ref.Selector == nil || slices.Contains(ref.AcceptedStates, fleet.WaitApplied) {
			continue
		}
		found = append(found, s.referred(ref)...)
	}
	return found
}

// referred returns the Bundles that a reference is about.
func (s *search) referred(ref *fleet.BundleRef) (found []*fleet.Bundle) {
	candidates := s.all
	if ref.Name != "" {
		named := s.byName[ref.Name]
		if named == nil {
			return nil
		}
		candidates = []*fleet.Bundle{named}
	}
	if ref.Selector == nil {
		return candidates
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil // the agents report it
	}
	cost := sizeOf(ref.Selector)
	for _, other := range candidates {
		if s.left -= cost; s.left < 0 {
			return found
		}
		if selector.Matches(s.labelsOf(other)) {
			found = append(found, other)
		}
	}
	return found
}

func (s *search) labelsOf(bundle *fleet.Bundle) labels.Set {
	known, done := s.labels[bundle.Name]
	if !done {
		known = BundleLabels(bundle)
		s.labels[bundle.Name] = known
		s.left -= len(known)
	}
	return known
}

// sizeOf returns how many steps one comparison with a selector takes. A nil selector takes 0.
func sizeOf(selector *metav1.LabelSelector) int {
	if selector == nil {
		return 0
	}
	size := 1 + len(selector.MatchLabels)
	for _, expression := range selector.MatchExpressions {
		size += 1 + len(expression.Values)
	}
	return size
}
