// Package dependencies finds the bundles that a BundleDeployment still waits for.
package dependencies

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Check checks the dependencies of a BundleDeployment against all BundleDeployments of its namespace. It
// returns a DependencyError while a dependency is not in an accepted state, and another error if a dependency does
// not exist or its reference is invalid.
func Check(bd *fleet.BundleDeployment, all []*fleet.BundleDeployment) error {
	var waiting []string
	invalid := ""
	for i, ref := range bd.Spec.DependsOn {
		selector, err := selectorOf(bd, ref)
		if err != nil {
			return err
		}
		if selector == nil {
			continue // an empty reference
		}
		found := false
		for _, other := range all {
			if !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			found = true
			if !accepts(ref, state.Of(other)) {
				waiting = append(waiting, other.Name)
				invalid = cmp.Or(invalid, invalidState(bd, i))
			}
		}
		if !found {
			return outcome.Because(conditions.ReasonDependencyMissing, fmt.Errorf("list bundledeployments: no bundles matching labels %s in namespace %s", selector, bd.Labels[fleet.LabelBundleNamespace]))
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	sort.Strings(waiting)
	return &outcome.DependencyError{Waiting: slices.Compact(waiting), Invalid: invalid}
}

// invalidState returns which accepted state of a reference does not exist, and what to do, or an empty string.
func invalidState(bd *fleet.BundleDeployment, ref int) string {
	err := state.CheckAccepted(bd.Spec.DependsOn[ref].AcceptedStates)
	if err == nil {
		return ""
	}
	return fmt.Sprintf("spec.dependsOn[%d].%v; correct it on the hub: kubectl edit bundles.fleet.cattle.io -n %s %s",
		ref, err, bd.Labels[fleet.LabelBundleNamespace], bd.Name)
}

// selectorOf returns nil for an empty reference.
func selectorOf(bd *fleet.BundleDeployment, ref fleet.BundleRef) (labels.Selector, error) {
	if ref.Name == "" && ref.Selector == nil {
		return nil, nil
	}
	wanted := &metav1.LabelSelector{}
	if ref.Selector != nil {
		wanted = ref.Selector.DeepCopy()
	}
	if ref.Name != "" {
		if wanted.MatchLabels == nil {
			wanted.MatchLabels = map[string]string{}
		}
		wanted.MatchLabels[fleet.LabelBundleName] = ref.Name
		wanted.MatchLabels[fleet.LabelBundleNamespace] = bd.Labels[fleet.LabelBundleNamespace]
	}
	selector, err := metav1.LabelSelectorAsSelector(wanted)
	if err != nil {
		return nil, outcome.Because(conditions.ReasonSelectorInvalid, fmt.Errorf("reading the selector of a dependency: %w", err))
	}
	return selector, nil
}

func accepts(ref fleet.BundleRef, found fleet.BundleState) bool {
	if len(ref.AcceptedStates) == 0 {
		return found == fleet.Ready
	}
	return slices.Contains(ref.AcceptedStates, found)
}
