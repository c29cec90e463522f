package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// What a rollout strategy means where it says nothing.
const (
	defaultPartitionSize      = "25%"
	defaultPartitionThreshold = 200
	defaultMaxNew             = 50
)

// Names of partitions that nobody has named.
const (
	// partitionAll is the one partition of a rollout without partitions.
	partitionAll = "All"
	// partitionRemaining has the clusters that no manual partition picks, where the Bundle asks for it.
	partitionRemaining = "Remaining"
)

// Part is one partition of a rollout.
type Part struct {
	Name string
	// Count is how many targets are in it.
	Count int
	// MaxUnavailable is how many of them may be unavailable.
	MaxUnavailable int
}

// Layout is how the targets of a Bundle are divided for its rollout, and the limits.
type Layout struct {
	// MaxUnavailable is how many targets may be unavailable, wherever they are.
	MaxUnavailable int
	// MaxUnavailablePartitions is how many partitions may be behind while later ones begin.
	MaxUnavailablePartitions int
	// MaxNew is how many BundleDeployments one pass may create.
	MaxNew int
	// Partitions are rolled out one after the other.
	Partitions []Part
	// Of are the partitions of each target, in the order of the targets: indexes into Partitions, ascending. A target
	// in none is left as it is.
	Of [][]int
	// Problem, if set, says what is strange about the partitions though they can be used. It names the field.
	Problem string
}

// Limits says whether there is anything that the layout keeps from being promoted.
func (l Layout) Limits() bool {
	count := len(l.Of)
	return l.MaxUnavailable < count || slices.ContainsFunc(l.Partitions, func(p Part) bool { return p.MaxUnavailable < p.Count })
}

// Undivided is the layout of a rollout without limits.
func Undivided(count int) Layout {
	out := Layout{MaxUnavailable: max(count, 1), MaxNew: defaultMaxNew, Of: make([][]int, count)}
	out.Partitions = []Part{{Name: partitionAll, Count: count, MaxUnavailable: max(count, 1)}}
	for i, in := 0, []int{0}; i < count; i++ {
		out.Of[i] = in
	}
	return out
}

// NewLayout divides the clusters a Bundle goes to, which are in the order of its targets. The groups are those of the
// namespaces the clusters are in. Errors wrap ErrStrategy or ErrSelector and begin with the field.
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

// Beside counts clusters that are left alone, because nobody can say whether they are targets: they are in no partition,
// but what is unavailable of them counts, and so what may be unavailable in all is a share of them, too.
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

// slice makes partitions of equal size, if there are clusters enough.
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
		in := []int{len(l.Partitions)} // one slice for all of them
		for range end - begin {
			l.Of = append(l.Of, in)
		}
		l.Partitions = append(l.Partitions, Part{Name: name(begin, end), Count: end - begin, MaxUnavailable: most})
	}
	return nil
}

// partitionSize is how many clusters make a partition; 0 if they are not divided.
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
	return size, nil // a size of 0 divides nothing either
}

// divide makes the partitions that a strategy defines. With remaining, what none of them picks is in a last one.
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
	l.Of = make([][]int, len(clusters))
	for i, cluster := range clusters {
		var in []*fleet.ClusterGroup
		if usesGroups {
			in = groups.Of(cluster)
		}
		for p, matcher := range matchers {
			if matcher.Match(cluster, in) {
				l.Of[i] = append(l.Of[i], p)
			}
		}
		if remaining && len(l.Of[i]) == 0 {
			l.Of[i] = []int{len(matchers)}
		}
		for _, p := range l.Of[i] {
			l.Partitions[p].Count++
		}
	}
	l.Problem = l.problem(strategy, clusters, groups)
	return l.limitPartitions(strategy)
}

func partitionMatchers(partitions []fleet.Partition) ([]targeting.Matcher, error) {
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

// limitPartitions gives the partitions their limits: their own, or the rollout's.
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

// problem finds what is most likely not meant: a group that is not there, partitions without any cluster, clusters
// without any partition.
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
		return "spec.rolloutStrategy.partitions: none of them picks any of the clusters the Bundle goes to, so nothing new is deployed anywhere"
	default:
		return fmt.Sprintf("spec.rolloutStrategy.partitions: none of them picks cluster %s in namespace %s, and perhaps others: nothing new is deployed there",
			clusters[first].Name, clusters[first].Namespace)
	}
}
