package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Defaults of a rollout strategy.
const (
	defaultPartitionSize      = "25%"
	defaultPartitionThreshold = 200
	defaultMaxNew             = 50
)

// Limits of the partitions of a Bundle. Decide compares the members of a partition with all of their partitions.
const (
	maxPartitions = 1000
	// maxMembers is the number of members of all partitions together. A cluster counts once for each of its partitions.
	maxMembers = 1 << 18
)

// Names of generated partitions.
const (
	// partitionAll is the only partition of a rollout without partitions.
	partitionAll = "All"
	// partitionRemaining contains the clusters that no manual partition selects, if the Bundle asks for it.
	partitionRemaining = "Remaining"
)

// Part is one partition of a rollout.
type Part struct {
	Name string
	// Count is the number of its targets.
	Count int
	// MaxUnavailable limits how many of them may be unavailable.
	MaxUnavailable int
}

// Layout divides the targets of a Bundle into partitions, and holds the limits.
type Layout struct {
	// MaxUnavailable limits the unavailable targets in total.
	MaxUnavailable int
	// MaxUnavailablePartitions limits the unfinished partitions while later ones start.
	MaxUnavailablePartitions int
	// MaxNew limits the BundleDeployments that one round creates.
	MaxNew int
	// Partitions are rolled out one after the other.
	Partitions []Part
	// Of holds the partitions of each target, in the order of the targets, as ascending indexes into Partitions. A
	// target without a partition is left unchanged.
	Of [][]int
	// Problem describes a likely mistake in valid partitions. It names the field.
	Problem string
}

// Limits reports whether the layout can keep any target from being promoted.
func (l Layout) Limits() bool {
	count := len(l.Of)
	return l.MaxUnavailable < count || slices.ContainsFunc(l.Partitions, func(p Part) bool { return p.MaxUnavailable < p.Count })
}

// Undivided returns the layout of a rollout without limits.
func Undivided(count int) Layout {
	out := Layout{MaxUnavailable: max(count, 1), MaxNew: defaultMaxNew, Of: make([][]int, count)}
	out.Partitions = []Part{{Name: partitionAll, Count: count, MaxUnavailable: max(count, 1)}}
	for i, in := 0, []int{0}; i < count; i++ {
		out.Of[i] = in
	}
	return out
}

// NewLayout divides the clusters of a Bundle, which have the order of its targets. Groups are the ClusterGroups of the
// clusters' namespaces. Errors wrap ErrStrategy or ErrSelector and start with the field.
func NewLayout(bundle *fleet.Bundle, clusters []*fleet.Cluster, groups targeting.Groups) (Layout, error) {
	var strategy fleet.RolloutStrategy
	if bundle.Spec.RolloutStrategy != nil {
		strategy = *bundle.Spec.RolloutStrategy
	}
	out := Layout{MaxNew: defaultMaxNew}
	if strategy.MaxNew != nil {
		out.MaxNew = *strategy.MaxNew
	}
	var err error
	if out.MaxUnavailable, err = limit(len(clusters), strategy.MaxUnavailable); err != nil {
		return Layout{}, inField("maxUnavailable", err)
	}
	if len(strategy.Partitions) > 0 {
		remaining := bundle.Annotations[fleet.AnnotationRolloutRemaining] == "true"
		err = out.divide(strategy, remaining, clusters, groups)
	} else {
		err = out.slice(strategy, len(clusters))
	}
	if err != nil {
		return Layout{}, err
	}
	none := intstr.FromInt32(0)
	if out.MaxUnavailablePartitions, err = limit(len(out.Partitions), strategy.MaxUnavailablePartitions, &none); err != nil {
		return Layout{}, inField("maxUnavailablePartitions", err)
	}
	return out, nil
}

// Beside adds the number of clusters that are left unchanged because it is unknown whether they are targets. They are
// in no partition, but their unavailable deployments count. So MaxUnavailable is a share of them, too.
func (l Layout) Beside(bundle *fleet.Bundle, alone int) (Layout, error) {
	if alone == 0 {
		return l, nil
	}
	var most *intstr.IntOrString
	if bundle.Spec.RolloutStrategy != nil {
		most = bundle.Spec.RolloutStrategy.MaxUnavailable
	}
	var err error
	if l.MaxUnavailable, err = limit(len(l.Of)+alone, most); err != nil {
		return Layout{}, inField("maxUnavailable", err)
	}
	return l, nil
}

func inField(field string, err error) error {
	return fmt.Errorf("spec.rolloutStrategy.%s: %w", field, err)
}

// slice creates partitions of equal size, if the number of clusters reaches the threshold.
func (l *Layout) slice(strategy fleet.RolloutStrategy, count int) error {
	each, err := partitionSize(strategy, count)
	if err != nil {
		return inField("autoPartitionSize", err)
	}
	name := func(begin, end int) string { return fmt.Sprintf("Partition %d - %d", begin, end) }
	if each == 0 {
		each, name = max(count, 1), func(int, int) string { return partitionAll }
	}
	for begin := 0; begin == 0 || begin < count; begin += each {
		end := min(begin+each, count)
		most, err := limit(end-begin, strategy.MaxUnavailable)
		if err != nil {
			return inField("maxUnavailable", err)
		}
		in := []int{len(l.Partitions)} // one slice for all members
		for range end - begin {
			l.Of = append(l.Of, in)
		}
		l.Partitions = append(l.Partitions, Part{Name: name(begin, end), Count: end - begin, MaxUnavailable: most})
	}
	return nil
}

// partitionSize returns the number of clusters per partition, or 0 if they are not divided.
func partitionSize(strategy fleet.RolloutStrategy, count int) (int, error) {
	byDefault := intstr.FromString(defaultPartitionSize)
	size, err := limit(count, strategy.AutoPartitionSize, &byDefault)
	threshold := defaultPartitionThreshold
	if strategy.AutoPartitionThreshold != nil {
		threshold = *strategy.AutoPartitionThreshold
	}
	if err != nil || threshold <= 0 || count < threshold {
		return 0, err
	}
	return size, nil // a size of 0 means no division, too
}

// divide creates the partitions of a strategy. With remaining, a last partition gets the clusters that none selects.
func (l *Layout) divide(strategy fleet.RolloutStrategy, remaining bool, clusters []*fleet.Cluster, groups targeting.Groups) error {
	matchers, err := partitionMatchers(strategy.Partitions)
	if err != nil {
		return err
	}
	for _, partition := range strategy.Partitions {
		l.Partitions = append(l.Partitions, Part{Name: partition.Name})
	}
	if remaining {
		l.Partitions = append(l.Partitions, Part{Name: partitionRemaining})
	}
	usesGroups := slices.ContainsFunc(matchers, targeting.Matcher.UsesGroups)
	members := 0
	l.Of = make([][]int, len(clusters))
	for i, cluster := range clusters {
		var in []*fleet.ClusterGroup
		if usesGroups {
			in = groups.Of(cluster)
		}
		l.Of[i] = partitionsOf(cluster, matchers, in)
		if remaining && len(l.Of[i]) == 0 && !mayBeIn(cluster, matchers, groups) {
			l.Of[i] = []int{len(matchers)}
		}
		if members += len(l.Of[i]); members > maxMembers {
			return inField("partitions", fmt.Errorf("%w: the partitions have more than %d clusters together: let fewer of them select the same cluster", ErrStrategy, maxMembers))
		}
		for _, p := range l.Of[i] {
			l.Partitions[p].Count++
		}
	}
	l.Problem = l.problem(strategy, clusters, groups)
	return l.limitPartitions(strategy)
}

func partitionsOf(cluster *fleet.Cluster, matchers []targeting.Matcher, in []*fleet.ClusterGroup) (partitions []int) {
	for p, matcher := range matchers {
		if matcher.Match(cluster, in) {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// mayBeIn reports whether a cluster may be in a partition that uses a ClusterGroup with an invalid selector. Such a cluster
// stays unchanged: the limit of its partition may be 0, and that of the remaining clusters may be higher.
func mayBeIn(cluster *fleet.Cluster, matchers []targeting.Matcher, groups targeting.Groups) bool {
	return slices.ContainsFunc(matchers, func(m targeting.Matcher) bool { return groups.MayMatch(m, cluster) })
}

func partitionMatchers(partitions []fleet.Partition) ([]targeting.Matcher, error) {
	if len(partitions) > maxPartitions {
		return nil, inField("partitions", fmt.Errorf("%w: there are %d partitions, and at most %d are allowed", ErrStrategy, len(partitions), maxPartitions))
	}
	matchers := make([]targeting.Matcher, len(partitions))
	for i, partition := range partitions {
		matcher, err := targeting.NewMatcher(targeting.Criteria{
			ClusterName: partition.ClusterName, ClusterSelector: partition.ClusterSelector,
			ClusterGroup: partition.ClusterGroup, ClusterGroupSelector: partition.ClusterGroupSelector,
		})
		if err != nil {
			return nil, fmt.Errorf("spec.rolloutStrategy.partitions[%d].%w", i, err)
		}
		matchers[i] = matcher
	}
	return matchers, nil
}

// limitPartitions sets the limit of each partition: its own, or the rollout's.
func (l *Layout) limitPartitions(strategy fleet.RolloutStrategy) (err error) {
	for i := range l.Partitions {
		var own *intstr.IntOrString
		if i < len(strategy.Partitions) {
			own = strategy.Partitions[i].MaxUnavailable
		}
		if l.Partitions[i].MaxUnavailable, err = limit(l.Partitions[i].Count, own, strategy.MaxUnavailable); err != nil {
			return inField(fmt.Sprintf("partitions[%d].maxUnavailable", i), err)
		}
	}
	return nil
}

// problem finds likely mistakes: a ClusterGroup that does not exist, partitions without clusters, and clusters without
// a partition.
func (l *Layout) problem(strategy fleet.RolloutStrategy, clusters []*fleet.Cluster, groups targeting.Groups) string {
	for i, partition := range strategy.Partitions {
		if trouble := groups.Trouble(partition.ClusterGroup); trouble != "" {
			return fmt.Sprintf("spec.rolloutStrategy.partitions[%d].clusterGroup: %s", i, trouble)
		}
	}
	first := slices.IndexFunc(l.Of, func(in []int) bool { return len(in) == 0 })
	switch {
	case first < 0:
		return ""
	case !slices.ContainsFunc(l.Of, func(in []int) bool { return len(in) > 0 }):
		return "spec.rolloutStrategy.partitions: none of them selects any target cluster of the Bundle, so nothing new is deployed"
	default:
		return fmt.Sprintf("spec.rolloutStrategy.partitions: none of them selects cluster %s in namespace %s, and possibly others: nothing new is deployed there",
			clusters[first].Name, clusters[first].Namespace)
	}
}
