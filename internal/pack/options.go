package pack

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/rules/state"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// document is a fleet.yaml. Messages of the decoder contain the names of types and fields.
type document struct {
	Name        string            `json:"name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`

	fleet.BundleSpec

	TargetCustomizations []fleet.BundleTarget            `json:"targetCustomizations,omitempty"`
	ImageScans           []imageScan                     `json:"imageScans,omitempty"`
	OverrideTargets      []fleet.BundleTargetRestriction `json:"overrideTargets,omitempty"`
}

// parseOptions reads a fleet.yaml.
func parseOptions(text []byte) (*document, error) {
	if err := yamlbound.Check(text); err != nil {
		return nil, fmt.Errorf("reading fleet.yaml: %w", err)
	}
	var doc document
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading fleet.yaml: %w", err)
	}
	doc.dropInternal()
	if err := checkDependencies(doc.DependsOn); err != nil {
		return nil, fmt.Errorf("validating fleet.yaml: %w", err)
	}
	doc.Targets = append(doc.Targets, doc.TargetCustomizations...)
	for i := range doc.Targets {
		completeTarget(&doc.Targets[i], i, doc.Helm)
	}
	if slices.Contains(overlays(&doc.BundleSpec), "") {
		return nil, errors.New("validating fleet.yaml: yaml.overlays contains an empty name: write the name of a folder in overlays/")
	}
	return &doc, nil
}

// dropInternal removes what only hubs and this program set. Otherwise a repository could change which clusters its
// Bundles may reach.
func (d *document) dropInternal() {
	spec := &d.BundleSpec
	spec.Resources, spec.TargetRestrictions, spec.ContentsID, spec.HelmOpOptions, spec.ValuesHash = nil, nil, "", nil, ""
	spec.Overwrites, spec.AllowedTargetNamespaceSelector = nil, nil
	for _, targets := range [][]fleet.BundleTarget{d.Targets, d.TargetCustomizations} {
		for i := range targets {
			targets[i].Overwrites, targets[i].AllowedTargetNamespaceSelector = nil, nil
		}
	}
}

// completeTarget names a target and adds what it inherits from the root's chart.
func completeTarget(target *fleet.BundleTarget, index int, root *fleet.HelmOptions) {
	if target.Name == "" {
		target.Name = fmt.Sprintf("target%03d", index)
	}
	if target.Helm == nil || root == nil {
		return
	}
	for _, inherited := range []struct{ to, from *string }{
		{&target.Helm.Repo, &root.Repo}, {&target.Helm.Chart, &root.Chart}, {&target.Helm.Version, &root.Version},
	} {
		if *inherited.to == "" {
			*inherited.to = *inherited.from
		}
	}
}

func checkDependencies(dependencies []fleet.BundleRef) error {
	for i, dependency := range dependencies {
		if dependency.Name == "" && dependency.Selector == nil {
			return fmt.Errorf("dependsOn[%d]: must specify either 'name' or 'selector'", i)
		}
		if err := state.CheckAccepted(dependency.AcceptedStates); err != nil {
			return fmt.Errorf("dependsOn[%d].%w", i, err)
		}
	}
	return nil
}
