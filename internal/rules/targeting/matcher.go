package targeting

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrSelector means that a label selector cannot be parsed. Only a change of the
// object it is in helps.
var ErrSelector = errors.New("invalid label selector")

// Criteria pick clusters. Those that are set must all hold; without any, nothing
// is picked.
type Criteria struct {
	// ClusterName is the name of a Cluster, or its name for people.
	ClusterName string
	// ClusterSelector picks by the labels of Clusters; an empty one picks all.
	ClusterSelector *metav1.LabelSelector
	// ClusterGroup is the name of a ClusterGroup the Cluster is in.
	ClusterGroup string
	// ClusterGroupSelector picks by the labels of ClusterGroups the Cluster is in.
	// Together with ClusterGroup, both must hold for one group.
	ClusterGroupSelector *metav1.LabelSelector
}

// Matcher is Criteria ready for use with many clusters.
type Matcher struct {
	name, group      string
	clusters, groups labels.Selector
}

// NewMatcher prepares criteria. Errors wrap ErrSelector.
func NewMatcher(c Criteria) (Matcher, error) {
	clusters, err := compile("clusterSelector", c.ClusterSelector)
	if err != nil {
		return Matcher{}, err
	}
	groups, err := compile("clusterGroupSelector", c.ClusterGroupSelector)
	if err != nil {
		return Matcher{}, err
	}
	return Matcher{name: c.ClusterName, group: c.ClusterGroup, clusters: clusters, groups: groups}, nil
}

// compile is nil for a selector that is not set, which is no criterion at all.
func compile(field string, selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", field, ErrSelector, err)
	}
	return compiled, nil
}

// Match says whether the criteria pick a cluster that is in these groups.
func (m Matcher) Match(cluster *fleet.Cluster, groups []*fleet.ClusterGroup) bool {
	for _, group := range orNone(groups) {
		if m.matchIn(cluster, group) {
			return true
		}
	}
	return false
}

// matchIn asks about the cluster as a member of one group; nil is none.
func (m Matcher) matchIn(cluster *fleet.Cluster, group *fleet.ClusterGroup) bool {
	if m == (Matcher{}) {
		return false // no criteria
	}
	if m.name != "" && m.name != cluster.Name && m.name != cluster.Labels[fleet.LabelClusterDisplayName] {
		return false
	}
	return m.matchGroup(group) && (m.clusters == nil || m.clusters.Matches(labels.Set(cluster.Labels)))
}

func (m Matcher) matchGroup(group *fleet.ClusterGroup) bool {
	var name string
	var groupLabels map[string]string
	if group != nil {
		name, groupLabels = group.Name, group.Labels
		if group.UID == unknownGroup {
			return m.group == name || m.group == "" && m.groups == nil
		}
	}
	return (m.group == "" || m.group == name) && (m.groups == nil || m.groups.Matches(labels.Set(groupLabels)))
}

// UsesGroups says whether groups can make a difference.
func (m Matcher) UsesGroups() bool { return m.group != "" || m.groups != nil }

// orNone lets a cluster without groups be asked about once.
func orNone(groups []*fleet.ClusterGroup) []*fleet.ClusterGroup {
	if len(groups) == 0 {
		return []*fleet.ClusterGroup{nil}
	}
	return groups
}

// Groups finds the ClusterGroups that Clusters are in.
type Groups struct {
	byNamespace map[string][]compiledGroup
	// broken have selectors that do not parse; ordered by name.
	broken map[string][]undecidedGroup
}

// undecidedGroup is a ClusterGroup of which nobody can say which Clusters are in it.
type undecidedGroup struct {
	group *fleet.ClusterGroup
	err   error // wraps ErrSelector
}

type compiledGroup struct {
	group    *fleet.ClusterGroup
	selector labels.Selector
}

// NewGroups prepares groups. One without a selector, or with one that cannot be
// parsed, has no members.
func NewGroups(groups []*fleet.ClusterGroup) Groups {
	out := Groups{byNamespace: map[string][]compiledGroup{}, broken: map[string][]undecidedGroup{}}
	for _, group := range groups {
		selector, err := GroupSelector(group)
		if err != nil {
			out.broken[group.Namespace] = append(out.broken[group.Namespace], undecidedGroup{group, err})
			continue
		}
		out.byNamespace[group.Namespace] = append(out.byNamespace[group.Namespace], compiledGroup{group, selector})
	}
	for _, broken := range out.broken {
		slices.SortFunc(broken, func(a, b undecidedGroup) int { return strings.Compare(a.group.Name, b.group.Name) })
	}
	return out
}

// GroupSelector picks the Clusters of a group among those of its namespace. Without
// a selector the group has none; an empty one picks all. Errors wrap ErrSelector,
// and the group has then no members that anybody could know of.
func GroupSelector(group *fleet.ClusterGroup) (labels.Selector, error) {
	selector, err := compile("selector", group.Spec.Selector)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("ClusterGroup %s: %w", group.Name, err)
	}
	if selector == nil {
		return labels.Nothing(), nil
	}
	return selector, nil
}

// Of are the groups a cluster is in: those of its namespace that select it.
func (g Groups) Of(cluster *fleet.Cluster) []*fleet.ClusterGroup {
	var in []*fleet.ClusterGroup
	for _, candidate := range g.byNamespace[cluster.Namespace] {
		if candidate.selector.Matches(labels.Set(cluster.Labels)) {
			in = append(in, candidate.group)
		}
	}
	return in
}

// Names are those of the groups a cluster is in, and of those of which nobody can say whether it is.
func (g Groups) Names(cluster *fleet.Cluster) []string {
	var out []string
	for _, group := range g.Of(cluster) {
		out = append(out, group.Name)
	}
	for _, undecided := range g.broken[cluster.Namespace] {
		out = append(out, undecided.group.Name)
	}
	return out
}

// Trouble says what is wrong with a group's name, if anything: no group has it, or the selector of the one that has
// it does not parse. The empty name is no group.
func (g Groups) Trouble(name string) string {
	if name == "" {
		return ""
	}
	for _, groups := range g.byNamespace {
		if slices.ContainsFunc(groups, func(c compiledGroup) bool { return c.group.Name == name }) {
			return ""
		}
	}
	for _, broken := range g.broken {
		if slices.ContainsFunc(broken, func(u undecidedGroup) bool { return u.group.Name == name }) {
			return fmt.Sprintf("the selector of ClusterGroup %s does not parse, so it has no clusters", name)
		}
	}
	return fmt.Sprintf("there is no ClusterGroup %s", name)
}
