package targeting

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleet-hub/fleet/internal/rules/templating"
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
	// Fingerprint is that of all that the Options depend on but the Bundle and the manifest; see Fingerprint.
	Fingerprint Fingerprint
	// Pending works the Options out where the deployment ID was known beforehand, or where those of many clusters are
	// long; nil if they are there. See Complete.
	Pending func() (Target, error)
	// Err, if set, says why this cluster cannot be told what to deploy; the fields
	// above but Cluster are then empty. It concerns this cluster alone.
	Err error
}

// maxOptions is how many bytes of options, as JSON, are kept for all clusters of a Bundle together.
const maxOptions = 16 << 20

// Targets are the clusters the Bundle goes to, ordered by name and then namespace.
// Groups whose selectors do not parse have no members here: ask Undecided first. The
// manifest ID is the name of the Bundle's Content.
func (s *Selection) Targets(manifestID string, clusters []*fleet.Cluster, groups Groups) []Target {
	return s.TargetsKnowing(manifestID, clusters, groups, func(*fleet.Cluster, Fingerprint) (string, bool) { return "", false })
}

// Known says which deployment ID a cluster was given when all was as this fingerprint says; the Bundle and its manifest
// were the same.
type Known func(cluster *fleet.Cluster, as Fingerprint) (deploymentID string, known bool)

// TargetsKnowing are the Targets. The options of a cluster whose deployment ID is known are not worked out, which is
// most of the work: Complete does that where they are needed.
func (s *Selection) TargetsKnowing(manifestID string, clusters []*fleet.Cluster, groups Groups, known Known) []Target {
	templater := templating.NewTemplater()
	kept := 0
	var out []Target
	for _, cluster := range clusters {
		picked, ok := s.choose(cluster, s.groupsOf(cluster, groups))
		if !ok {
			continue
		}
		made := 0 // how long the Options are, as JSON
		complete := func() (target Target, err error) {
			target, made, err = s.target(manifestID, cluster, picked, templater)
			if err != nil {
				err = fmt.Errorf("cluster %s in namespace %s: %w", cluster.Name, cluster.Namespace, err)
			}
			return target, err
		}
		fingerprint := s.fingerprint(cluster, picked)
		target := Target{Cluster: cluster, Pending: complete}
		var before bool
		if target.DeploymentID, before = known(cluster, fingerprint); !before {
			var err error
			if target, err = complete(); err != nil {
				target = Target{Cluster: cluster, Err: err}
			}
			if kept += made; kept > maxOptions {
				kept -= made
				target = Target{Cluster: cluster, DeploymentID: target.DeploymentID, Pending: complete}
			}
		}
		target.Fingerprint = fingerprint
		out = append(out, target)
	}
	slices.SortFunc(out, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Cluster.Name, b.Cluster.Name), cmp.Compare(a.Cluster.Namespace, b.Cluster.Namespace))
	})
	return out
}

// Complete is the target with its options. It is not safe for concurrent use with other targets of the same call.
func (t Target) Complete() (Target, error) {
	if t.Pending == nil {
		return t, t.Err
	}
	complete, err := t.Pending()
	complete.Fingerprint = t.Fingerprint
	return complete, err
}

func (s *Selection) target(manifestID string, cluster *fleet.Cluster, picked chosen, templater *templating.Templater) (Target, int, error) {
	if err := CheckName(cluster.Name); err != nil {
		return Target{}, 0, err
	}
	options := s.options(picked)
	if err := templater.Template(&options, cluster); err != nil {
		return Target{}, 0, err
	}
	id, length, err := deploymentID(manifestID, options)
	if err != nil {
		return Target{}, 0, err
	}
	picked.namespaceMetadata(&options)
	return Target{Cluster: cluster, Options: options, DeploymentID: id}, length, nil
}

// IsPaused says whether changes of a Bundle are held back from a cluster.
func IsPaused(bundle *fleet.Bundle, cluster *fleet.Cluster) bool {
	return bundle.Spec.Paused || cluster.Spec.Paused
}
