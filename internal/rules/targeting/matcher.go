package targeting

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrSelector means that a label selector is invalid. The object that contains it has to be changed.
var ErrSelector = errors.New("invalid label selector")

// Criteria select clusters. All criteria that are set must match. Without criteria, no cluster matches.
type Criteria struct {
	// ClusterName is the name or the display name of a Cluster.
	ClusterName string
	// ClusterSelector matches the labels of Clusters; an empty selector matches all.
	ClusterSelector *metav1.LabelSelector
	// ClusterGroup is the name of a ClusterGroup that contains the Cluster.
	ClusterGroup string
	// ClusterGroupSelector matches the labels of ClusterGroups that contain the Cluster. Together with ClusterGroup,
	// one group must match both.
	ClusterGroupSelector *metav1.LabelSelector
}

// Matcher evaluates Criteria for many clusters.
type Matcher struct {
	name, group      string
	clusters, groups labels.Selector
}

// NewMatcher parses criteria. Errors wrap ErrSelector.
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

// compile parses a selector. It returns nil for a selector that is not set, which is not a criterion.
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

// Match reports whether the criteria select a cluster that is in these groups.
func (m Matcher) Match(cluster *fleet.Cluster, groups []*fleet.ClusterGroup) bool {
	for _, group := range orNone(groups) {
		if m.matchIn(cluster, group) {
			return true
		}
	}
	return false
}

// matchIn reports whether the criteria select a cluster as a member of one group. group is nil for a cluster without
// groups.
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

// UsesGroups reports whether the result depends on groups.
func (m Matcher) UsesGroups() bool { return m.group != "" || m.groups != nil }

// orNone returns the groups, or a single nil group, so that a cluster without groups is evaluated once.
func orNone(groups []*fleet.ClusterGroup) []*fleet.ClusterGroup {
	if len(groups) == 0 {
		return []*fleet.ClusterGroup{nil}
	}
	return groups
}

// Groups finds the ClusterGroups that contain a Cluster.
type Groups struct {
	byNamespace map[string][]compiledGroup
	// broken are the groups with invalid selectors, by namespace, ordered by name.
	broken map[string][]undecidedGroup
	// size is the number of comparisons that it takes to evaluate all selectors once.
	size int
	// parsed holds the selectors of all groups, also invalid ones, by UID.
	parsed map[types.UID]parsedSelector
}

// parsedSelector is the result of GroupSelector for one generation of a group.
type parsedSelector struct {
	generation int64
	selector   labels.Selector
	err        error
}

// undecidedGroup is a ClusterGroup whose members are unknown.
type undecidedGroup struct {
	group *fleet.ClusterGroup
	err   error // wraps ErrSelector
}

type compiledGroup struct {
	group    *fleet.ClusterGroup
	selector labels.Selector
}

// NewGroups parses the selectors of groups. A group without a selector, or with an invalid one, has no members.
func NewGroups(groups []*fleet.ClusterGroup) Groups { return Groups{}.Update(groups) }

// Update is NewGroups for a newer list of the same groups. It parses only the selectors of groups that are new or have another
// generation: tenants choose the number and the size of selectors, and the groups are needed for each change of a Cluster.
func (g Groups) Update(groups []*fleet.ClusterGroup) Groups {
	out := Groups{byNamespace: map[string][]compiledGroup{}, broken: map[string][]undecidedGroup{}, parsed: map[types.UID]parsedSelector{}}
	for _, group := range groups {
		known := parsedSelector{generation: group.Generation}
		known.selector, known.err = g.Selector(group)
		if group.UID != "" {
			out.parsed[group.UID] = known
		}
		if known.err != nil {
			out.broken[group.Namespace] = append(out.broken[group.Namespace], undecidedGroup{group, known.err})
			continue
		}
		out.size += sizeOf(group.Spec.Selector)
		out.byNamespace[group.Namespace] = append(out.byNamespace[group.Namespace], compiledGroup{group, known.selector})
	}
	for _, broken := range out.broken {
		slices.SortFunc(broken, func(a, b undecidedGroup) int { return strings.Compare(a.group.Name, b.group.Name) })
	}
	return out
}

// Add adds the groups of other workspaces. It must not be called for the result of Update, which is shared.
func (g *Groups) Add(others Groups) {
	if g.byNamespace == nil {
		g.byNamespace, g.broken = map[string][]compiledGroup{}, map[string][]undecidedGroup{}
	}
	maps.Copy(g.byNamespace, others.byNamespace)
	maps.Copy(g.broken, others.broken)
	g.size += others.size
}

// In returns all groups of some workspaces.
func (g Groups) In(workspaces ...string) (in []*fleet.ClusterGroup) {
	for _, workspace := range workspaces {
		for _, each := range g.byNamespace[workspace] {
			in = append(in, each.group)
		}
		for _, each := range g.broken[workspace] {
			in = append(in, each.group)
		}
	}
	return in
}

// Selector is GroupSelector, but does not parse a known selector again.
func (g Groups) Selector(group *fleet.ClusterGroup) (labels.Selector, error) {
	if known, found := g.parsed[group.UID]; found && known.generation == group.Generation {
		return known.selector, known.err
	}
	return GroupSelector(group)
}

// GroupSelector returns the selector of a group, which applies to the Clusters of its namespace. Without a selector
// the group has no members; an empty selector matches all. Errors wrap ErrSelector. The members are unknown in that
// case, and the returned selector matches nothing.
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

// Of returns the groups that contain a cluster. A group contains Clusters of its own namespace only.
func (g Groups) Of(cluster *fleet.Cluster) []*fleet.ClusterGroup {
	var in []*fleet.ClusterGroup
	for _, candidate := range g.byNamespace[cluster.Namespace] {
		if candidate.selector.Matches(labels.Set(cluster.Labels)) {
			in = append(in, candidate.group)
		}
	}
	return in
}

// Names returns the names of the groups that contain a cluster, and of the groups that may contain it because their
// selector is invalid.
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

// Trouble says what is wrong with the name of a group: the group does not exist, or its selector is invalid. It
// returns an empty string if nothing is wrong, or if the name is empty.
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
