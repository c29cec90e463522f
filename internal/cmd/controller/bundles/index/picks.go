package index

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// BundlesByPick finds the Bundles of a workspace that may go to a cluster, by any of the words that KeysOf says of it:
// "<workspace>/<word>". Each Bundle is found by one of the things that each of its targets asks for, so that it is
// found for every cluster it goes to, and for few others.
const BundlesByPick = "fleet.by-pick"

// Words begin with what they are about, in one letter.
const (
	byName  = "n/"
	byGroup = "g/"
	byLabel = "l/"
	anybody = "*"
)

// PicksOf are the words by which a Bundle is found.
func PicksOf(bundle *fleet.Bundle) []string {
	words := map[string]bool{}
	for i := range bundle.Spec.Targets {
		for _, word := range wordsOf(&bundle.Spec.Targets[i]) {
			words[bundle.Namespace+"/"+word] = true
		}
	}
	return slices.Sorted(maps.Keys(words))
}

// wordsOf are words of which every cluster that the target picks has one. A name tells most clusters apart, and a label
// fewer than a group.
func wordsOf(target *fleet.BundleTarget) []string {
	switch {
	case target.ClusterName != "":
		return []string{byName + target.ClusterName}
	case target.ClusterGroup != "":
		return []string{byGroup + target.ClusterGroup}
	case target.ClusterSelector != nil:
		return wordsOfSelector(target.ClusterSelector)
	default:
		return []string{anybody}
	}
}

func wordsOfSelector(selector *metav1.LabelSelector) []string {
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		return []string{byLabel + key + "=" + selector.MatchLabels[key]}
	}
	for _, requirement := range selector.MatchExpressions {
		if requirement.Operator != metav1.LabelSelectorOpIn {
			continue
		}
		var words []string
		for _, value := range requirement.Values {
			words = append(words, byLabel+requirement.Key+"="+value)
		}
		return words
	}
	return []string{anybody}
}

// KeysOf are the words of a cluster that is, or may be, in these groups, for looking Bundles of a workspace up.
func KeysOf(workspace string, cluster *fleet.Cluster, groups []string) []string {
	keys := []string{workspace + "/" + anybody, workspace + "/" + byName + cluster.Name}
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
