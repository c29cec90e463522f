package targeting

import (
	"cmp"
	"fmt"
	"slices"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Target is one cluster a Bundle goes to, with what it is to deploy there.
type Target struct {
	// Cluster is the input's; not to be changed.
	Cluster *fleet.Cluster
	// Options are merged and templated, Helm values included.
	Options fleet.BundleDeploymentOptions
	// DeploymentID identifies the manifest and the options.
	DeploymentID string
	// Err, if set, says why this cluster cannot be told what to deploy; the fields
	// above but Cluster are then empty. It concerns this cluster alone.
	Err error
}

// Targets are the clusters the Bundle goes to, ordered by name and then namespace.
// Groups whose selectors do not parse have no members here: ask Undecided first. The
// manifest ID is the name of the Bundle's Content.
func (s *Selection) Targets(manifestID string, clusters []*fleet.Cluster, groups Groups) []Target {
	templater := NewTemplater()
	var out []Target
	for _, cluster := range clusters {
		picked, ok := s.choose(cluster, s.groupsOf(cluster, groups))
		if !ok {
			continue
		}
		target, err := s.target(manifestID, cluster, picked, templater)
		if err != nil {
			target = Target{Cluster: cluster, Err: fmt.Errorf("cluster %s in namespace %s: %w", cluster.Name, cluster.Namespace, err)}
		}
		out = append(out, target)
	}
	slices.SortFunc(out, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Cluster.Name, b.Cluster.Name), cmp.Compare(a.Cluster.Namespace, b.Cluster.Namespace))
	})
	return out
}

func (s *Selection) target(manifestID string, cluster *fleet.Cluster, picked chosen, templater *Templater) (Target, error) {
	if err := CheckName(cluster.Name); err != nil {
		return Target{}, err
	}
	options := s.options(picked)
	if err := templater.Template(&options, cluster); err != nil {
		return Target{}, err
	}
	id, err := DeploymentID(manifestID, options)
	if err != nil {
		return Target{}, err
	}
	picked.namespaceMetadata(&options)
	return Target{Cluster: cluster, Options: options, DeploymentID: id}, nil
}
