package hub

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// checkMappings finds BundleNamespaceMappings without effect. They have no conditions, and their Events expire.
func checkMappings(f *Facts) (rows []check.Row) {
	for _, mapping := range f.Mappings {
		target := check.OfFleet("BundleNamespaceMapping", mapping)
		parsed := targeting.NewMapping(mapping)
		err := parsed.Err()
		switch {
		case errors.Is(err, targeting.ErrMappingIncomplete):
			rows = check.Group(rows, "incomplete", check.Fail(target, err.Error(), editMapping(mapping)))
		case err != nil:
			rows = check.Group(rows, "invalid", check.Fail(target, err.Error()+": what was deployed through the mapping stays as it is", editMapping(mapping)))
		case !f.leadsAnywhere(parsed):
			rows = check.Group(rows, "namespaces", check.Warn(target, "no other namespace matches the namespaceSelector "+metav1.FormatLabelSelector(mapping.NamespaceSelector),
				remedy.Command("kubectl", "get", "namespaces", "--show-labels")))
		case !slices.ContainsFunc(f.Bundles, func(b Bundle) bool { return parsed.Takes(b.Bundle) }):
			rows = check.Group(rows, "bundles", check.Warn(target, "no Bundle of its namespace matches the bundleSelector "+metav1.FormatLabelSelector(mapping.BundleSelector),
				remedy.Command("kubectl", "get", "bundles.fleet.cattle.io", "-n", mapping.Namespace, "--show-labels")))
		}
	}
	return rows
}

// leadsAnywhere reports whether a mapping selects a namespace besides its own, whether that accepts its Bundles or not.
func (f *Facts) leadsAnywhere(mapping targeting.Mapping) bool {
	return slices.ContainsFunc(f.Namespaces, func(namespace *metav1.PartialObjectMetadata) bool {
		return namespace.Name != mapping.Workspace() && (mapping.LeadsTo(namespace) || mapping.RefusedBy(namespace))
	})
}

func editMapping(mapping *fleet.BundleNamespaceMapping) string {
	return remedy.Command("kubectl", "edit", "bundlenamespacemappings.fleet.cattle.io", "-n", mapping.Namespace, mapping.Name)
}
