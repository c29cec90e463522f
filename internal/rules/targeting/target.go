package targeting

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleet-hub/fleet/internal/rules/templating"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Target is one cluster that a Bundle goes to, with the options to deploy there.
type Target struct {
	// Cluster is the input's object; it must not be changed.
	Cluster *fleet.Cluster
	// Options are merged and templated, including Helm values.
	Options fleet.BundleDeploymentOptions
	// DeploymentID identifies the manifest and the options.
	DeploymentID string
	// Fingerprint covers everything that Options depend on, except for the Bundle and its manifest.
	Fingerprint Fingerprint
	// Pending computes the Options. It is set if the deployment ID was known before, or if the options of all clusters
	// are too large to keep. It is nil if Options is complete. See Complete.
	Pending func() (Target, error)
	// Err, if set, says why the options for this cluster cannot be computed. The fields above except Cluster are then
	// empty. Other clusters are not affected.
	Err error
}

// maxOptions limits the bytes of options, as JSON, that are kept for all clusters of a Bundle together.
const maxOptions = 16 << 20

// Known returns the deployment ID that a cluster had when its fingerprint was the same. It must refer to the same
// Bundle and manifest.
type Known func(cluster *fleet.Cluster, as Fingerprint) (deploymentID string, known bool)

// Targets returns the clusters the Bundle goes to, ordered by name and then namespace. Groups with invalid selectors
// have no members here, so call Undecided first. manifestID is the name of the Bundle's Content. The options of clusters
// whose deployment ID is known are not computed, which saves most of the work: see Complete. known may be nil.
func (s *Selection) Targets(manifestID string, clusters []*fleet.Cluster, groups Groups, known Known) []Target {
	templater := templating.NewTemplater()
	kept := 0
	var out []Target
	for _, cluster := range clusters {
		picked, ok := s.choose(cluster, s.groupsOf(cluster, groups))
		if !ok {
			continue
		}
		made := 0 // length of the Options as JSON
		complete := func() (target Target, err error) {
			target, made, err = s.target(manifestID, cluster, picked, templater)
			if err != nil {
				err = fmt.Errorf("cluster %s in namespace %s: %w", cluster.Name, cluster.Namespace, err)
			}
			return target, err
		}
		fingerprint := s.fingerprint(cluster, picked)
		target := Target{Cluster: cluster, Pending: complete}
		before := false
		if known != nil {
			target.DeploymentID, before = known(cluster, fingerprint)
		}
		if !before {
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

// Complete returns the target with its options. It must not be called concurrently for targets of the same call.
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

// IsPaused reports whether changes of a Bundle are held back from a cluster.
func IsPaused(bundle *fleet.Bundle, cluster *fleet.Cluster) bool {
	return bundle.Spec.Paused || cluster.Spec.Paused
}

// IsOffSchedule reports whether a Schedule keeps the agent of a cluster from deploying anything now.
func IsOffSchedule(cluster *fleet.Cluster) bool {
	return cluster.Status.Scheduled && !cluster.Status.ActiveSchedule
}
