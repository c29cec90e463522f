package targeting

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Selection decides which clusters a Bundle goes to, and with which options before templating. It is created once per
// generation of a Bundle and evaluated for many clusters.
type Selection struct {
	bundle         *fleet.Bundle
	restrictions   []Matcher
	customisations []choice
	targets        []choice
	groups         bool
	// size is the number of comparisons that it takes to evaluate all matchers once.
	size int
	// partitionedByGroups means that partitions of the rollout select clusters by their groups.
	partitionedByGroups bool
	// named are all ClusterGroups that the Bundle names.
	named []GroupRef
	// ofAgent is true for the Bundle of a Cluster's agent. It goes to no other Cluster, regardless of its targets.
	ofAgent bool
}

type choice struct {
	target  *fleet.BundleTarget
	matcher Matcher
}

// NewSelection parses the targets of a Bundle. If there are N restrictions, the last N targets decide where the Bundle
// goes, and the targets before them only customise. Without restrictions, all targets decide. The Bundle must not
// change while the selection is in use. Errors wrap ErrSelector.
func NewSelection(bundle *fleet.Bundle) (*Selection, error) {
	s := &Selection{
		bundle: bundle, ofAgent: bundle.Annotations[fleet.AnnotationSetID] == names.AgentBundleSet,
		partitionedByGroups: partitionedByGroups(bundle.Spec.RolloutStrategy),
	}
	for i, restriction := range bundle.Spec.TargetRestrictions {
		matcher, err := NewMatcher(Criteria{
			ClusterName: restriction.ClusterName, ClusterSelector: restriction.ClusterSelector,
			ClusterGroup: restriction.ClusterGroup, ClusterGroupSelector: restriction.ClusterGroupSelector,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label("spec.targetRestrictions", i, restriction.Name), err)
		}
		s.restrictions = append(s.restrictions, matcher)
		s.note(matcher, label("spec.targetRestrictions", i, restriction.Name))
		s.size += 1 + sizeOf(restriction.ClusterSelector) + sizeOf(restriction.ClusterGroupSelector)
	}
	customisations := 0
	if restrictions := len(s.restrictions); restrictions > 0 {
		customisations = max(0, len(bundle.Spec.Targets)-restrictions)
	}
	for i := range bundle.Spec.Targets {
		target := &bundle.Spec.Targets[i]
		matcher, err := NewMatcher(Criteria{
			ClusterName: target.ClusterName, ClusterSelector: target.ClusterSelector,
			ClusterGroup: target.ClusterGroup, ClusterGroupSelector: target.ClusterGroupSelector,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label("spec.targets", i, target.Name), err)
		}
		s.note(matcher, label("spec.targets", i, target.Name))
		s.size += 1 + sizeOf(target.ClusterSelector) + sizeOf(target.ClusterGroupSelector)
		if i < customisations {
			s.customisations = append(s.customisations, choice{target, matcher})
		} else {
			s.targets = append(s.targets, choice{target, matcher})
		}
	}
	return s, nil
}

// note records whether groups matter, and which groups are named.
func (s *Selection) note(matcher Matcher, where string) {
	s.groups = s.groups || matcher.UsesGroups()
	if matcher.group != "" {
		s.named = append(s.named, GroupRef{Where: where, Name: matcher.group})
	}
}

func label(field string, index int, name string) string {
	if name == "" {
		return fmt.Sprintf("%s[%d]", field, index)
	}
	return fmt.Sprintf("%s[%d] (%s)", field, index, name)
}

// Picks reports whether the Bundle goes, or may go, to a cluster that is in these groups.
func (s *Selection) Picks(cluster *fleet.Cluster, groups Groups) bool {
	_, picked := s.choose(cluster, s.groupsOf(cluster, groups))
	return picked || s.Undecided(cluster, groups) != nil
}

// Effort estimates the number of comparisons that Picks makes. Tenants choose the number and the size of targets and groups.
func (s *Selection) Effort(cluster *fleet.Cluster, groups Groups) int {
	if !s.groups {
		return s.size
	}
	broken := len(groups.broken[cluster.Namespace])
	return (groups.size + s.size*(1+len(groups.Of(cluster)))) * (1 + min(broken, mostUnknown))
}

func (s *Selection) groupsOf(cluster *fleet.Cluster, groups Groups) []*fleet.ClusterGroup {
	if !s.groups {
		return nil // no criterion uses groups
	}
	return groups.Of(cluster)
}

// chosen holds the targets that apply to one cluster.
type chosen struct {
	// overlays are merged in this order, and the result over the Bundle's own options.
	overlays []*fleet.BundleTarget
}

// choose returns the targets that apply to a cluster in these groups. It returns false if the Bundle does not go
// there.
func (s *Selection) choose(cluster *fleet.Cluster, in []*fleet.ClusterGroup) (chosen, bool) {
	target, customising := s.applying(cluster, in)
	excludes := func(t *fleet.BundleTarget) bool { return t.DoNotDeploy }
	switch {
	case target == nil || target.DoNotDeploy || slices.ContainsFunc(customising, excludes):
		return chosen{}, false
	case len(customising) > 0 && !s.allMatches():
		return chosen{overlays: customising}, true // the customisation replaces the target
	default:
		return chosen{overlays: append([]*fleet.BundleTarget{target}, customising...)}, true
	}
}

// applying returns the target that selects a cluster in these groups, or nil, and the customisations that apply there.
func (s *Selection) applying(cluster *fleet.Cluster, in []*fleet.ClusterGroup) (target *fleet.BundleTarget, customising []*fleet.BundleTarget) {
	if s.ofAgent && s.bundle.Name != names.AgentBundle(cluster.Name) {
		return nil, nil // an agent's target may match another Cluster by its display name
	}
	if target = s.deployTarget(cluster, in); target == nil {
		return nil, nil
	}
	for _, customisation := range s.customisations {
		if customisation.matcher.Match(cluster, in) {
			customising = append(customising, customisation.target)
			if !s.allMatches() {
				break
			}
		}
	}
	return target, customising
}

func (s *Selection) allMatches() bool {
	return s.bundle.Spec.TargetCustomizationMode == fleet.TargetCustomizationAllMatches
}

// deployTarget returns the first target that selects the cluster as a member of a group for which the restrictions
// allow it.
func (s *Selection) deployTarget(cluster *fleet.Cluster, groups []*fleet.ClusterGroup) *fleet.BundleTarget {
	var allowed []*fleet.ClusterGroup // found once: a GitRepo gives a Bundle as many restrictions as targets
	for _, group := range orNone(groups) {
		if s.allowedIn(cluster, group) {
			allowed = append(allowed, group)
		}
	}
	for _, candidate := range s.targets {
		for _, group := range allowed {
			if candidate.matcher.matchIn(cluster, group) {
				return candidate.target
			}
		}
	}
	return nil
}

func (s *Selection) allowedIn(cluster *fleet.Cluster, group *fleet.ClusterGroup) bool {
	if len(s.restrictions) == 0 {
		return true
	}
	for _, restriction := range s.restrictions {
		if restriction.matchIn(cluster, group) {
			return true
		}
	}
	return false
}

// options merges the overlays one after another, and the result over the Bundle's options. The order matters if an
// overlay resets a field: it resets what earlier overlays have set, not what the Bundle has set.
func (s *Selection) options(c chosen) fleet.BundleDeploymentOptions {
	if len(c.overlays) == 0 {
		return *s.bundle.Spec.BundleDeploymentOptions.DeepCopy()
	}
	options := make([]fleet.BundleDeploymentOptions, 0, len(c.overlays))
	for _, overlay := range c.overlays {
		options = append(options, overlay.BundleDeploymentOptions)
	}
	return Merge(s.bundle.Spec.BundleDeploymentOptions, Merge(options[0], options[1:]...))
}

// namespaceMetadata applies the targets' labels and annotations for the release's namespace. They do not affect the
// deployment ID.
func (c chosen) namespaceMetadata(options *fleet.BundleDeploymentOptions) {
	options.NamespaceLabels, options.NamespaceAnnotations = maps.Clone(options.NamespaceLabels), maps.Clone(options.NamespaceAnnotations)
	for _, overlay := range c.overlays {
		options.NamespaceLabels = overlaid(options.NamespaceLabels, overlay.NamespaceLabels)
		options.NamespaceAnnotations = overlaid(options.NamespaceAnnotations, overlay.NamespaceAnnotations)
	}
}

// overlaid returns base, which it changes, with the entries of overlay.
func overlaid(base, overlay map[string]string) map[string]string {
	if len(overlay) == 0 {
		return base
	}
	if base == nil {
		base = map[string]string{}
	}
	maps.Copy(base, overlay)
	return base
}

// UsesGroups reports whether the clusters of the Bundle, or the order of their rollout, depend on ClusterGroups.
func (s *Selection) UsesGroups() bool { return s.groups || s.partitionedByGroups }

func partitionedByGroups(strategy *fleet.RolloutStrategy) bool {
	return strategy != nil && slices.ContainsFunc(strategy.Partitions, func(p fleet.Partition) bool {
		return p.ClusterGroup != "" || p.ClusterGroupSelector != nil
	})
}
