package targeting

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Circle returns the shortest dependency cycle through a Bundle, among the Bundles of its namespace: the names of the
// Bundles on it, starting with the Bundle's own. It returns nil if the Bundle does not depend on itself. The Bundles
// of a cycle wait for each other, so none is deployed to a cluster that does not have all of them already.
func Circle(bundle *fleet.Bundle, all []*fleet.Bundle) []string {
	ways := [][]*fleet.Bundle{{bundle}}
	seen := map[string]bool{}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		for _, next := range dependencies(way[len(way)-1], all) {
			if next.Name == bundle.Name {
				return namesOf(way)
			}
			if !seen[next.Name] {
				seen[next.Name] = true
				ways = append(ways, append(slices.Clip(way), next))
			}
		}
	}
	return nil
}

func namesOf(bundles []*fleet.Bundle) (names []string) {
	for _, bundle := range bundles {
		names = append(names, bundle.Name)
	}
	return names
}

// dependencies returns the Bundles that a Bundle depends on, as its agents would find them. It skips a reference with
// an invalid selector or without name and selector. It also skips a reference that accepts the state WaitApplied,
// because that is satisfied without a deployment.
func dependencies(bundle *fleet.Bundle, all []*fleet.Bundle) (found []*fleet.Bundle) {
	for _, ref := range bundle.Spec.DependsOn {
		if ref.Name == "" && ref.Selector == nil || slices.Contains(ref.AcceptedStates, fleet.WaitApplied) {
			continue
		}
		selector := labels.Everything()
		if ref.Selector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
				continue // the agents report it
			}
		}
		for _, other := range all {
			if (ref.Name == "" || ref.Name == other.Name) && selector.Matches(labels.Set(BundleLabels(other))) {
				found = append(found, other)
			}
		}
	}
	return found
}
