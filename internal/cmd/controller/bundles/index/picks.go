package index

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// BundlesByPick finds the Bundles of a workspace that may go to a cluster. A key is "<workspace>/<criterion>", and KeysOf
// returns the keys of a cluster. Each Bundle is indexed by one criterion of each of its targets, so that it is found
// for every cluster it goes to, and for few others.
const BundlesByPick = "fleet.by-pick"

// A criterion begins with one letter for its kind.
const (
	byName     = "n/"
	byGroup    = "g/"
	byLabel    = "l/"
	anyCluster = "*"
)

// PicksOf returns the index keys of a Bundle.
func PicksOf(bundle *fleet.Bundle) []string {
	criteria := map[string]bool{}
	for i := range bundle.Spec.Targets {
		for _, criterion := range criteriaOf(&bundle.Spec.Targets[i]) {
			criteria[bundle.Namespace+"/"+criterion] = true
		}
	}
	return slices.Sorted(maps.Keys(criteria))
}

// criteriaOf returns criteria such that every cluster that the target selects has at least one of them. It prefers the
// criterion that matches the fewest clusters: the name, then the group, then labels.
func criteriaOf(target *fleet.BundleTarget) []string {
	switch {
	case target.ClusterName != "":
		return []string{byName + target.ClusterName}
	case target.ClusterGroup != "":
		return []string{byGroup + target.ClusterGroup}
	case target.ClusterSelector != nil:
		return criteriaOfSelector(target.ClusterSelector)
	default:
		return []string{anyCluster}
	}
}

func criteriaOfSelector(selector *metav1.LabelSelector) []string {
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		return []string{byLabel + key + "=" + selector.MatchLabels[key]}
	}
	for _, requirement := range selector.MatchExpressions {
		if requirement.Operator != metav1.LabelSelectorOpIn {
			continue
		}
		var criteria []string
		for _, value := range requirement.Values {
			criteria = append(criteria, byLabel+requirement.Key+"="+value)
		}
		return criteria
	}
	return []string{anyCluster}
}

// KeysOf returns the index keys that find the Bundles of a workspace for a cluster. groups are the ClusterGroups that
// the cluster is in, or may be in.
func KeysOf(workspace string, cluster *fleet.Cluster, groups []string) []string {
	keys := []string{workspace + "/" + anyCluster, workspace + "/" + byName + cluster.Name}
	if display := cluster.Labels[fleet.LabelClusterDisplayName]; display != "" && display != cluster.Name {
		keys = append(keys, workspace+"/"+byName+display)
	}
	for key, value := range cluster.Labels {
		keys = append(keys, workspace+"/"+byLabel+key+"="+value)
	}
	for _, group := range groups {
		keys = append(keys, workspace+"/"+byGroup+group)
	}
	return keys
}
