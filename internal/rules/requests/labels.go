package requests

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// maxClusterLabels is the number of labels that a request can add to its Cluster.
	maxClusterLabels = 64
	// maxNamedLabels is the number of skipped labels that a message names.
	maxNamedLabels = 5
)

// Labels returns the labels that an agent may set on its Cluster. It skips labels of Fleet, except the name of the
// agent's pod, and invalid labels, with which the Cluster could not be created. Of the others it returns the first
// ones, sorted by key. leftOut are the keys of the skipped labels without those of Fleet.
func Labels(proposed map[string]string) (labels map[string]string, leftOut []string) {
	labels = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(proposed)) {
		value := proposed[key]
		ours := strings.HasPrefix(key, "fleet.cattle.io/") || strings.HasPrefix(key, "management.cattle.io/")
		switch {
		case ours && key != fleet.LabelCreatedByAgentPod:
		case len(labels) >= maxClusterLabels, len(validation.IsQualifiedName(key)) > 0, len(validation.IsValidLabelValue(value)) > 0:
			leftOut = append(leftOut, key)
		default:
			labels[key] = value
		}
	}
	return labels, leftOut
}

// LeftOut returns a sentence that names the labels of a request that are never copied to a Cluster. It returns "" if
// all can be copied.
func LeftOut(request *fleet.ClusterRegistration) string {
	_, keys := Labels(request.Spec.ClusterLabels)
	if len(keys) == 0 {
		return ""
	}
	named := make([]string, 0, maxNamedLabels)
	for _, key := range keys[:min(len(keys), maxNamedLabels)] {
		named = append(named, fmt.Sprintf("%.63q", key))
	}
	more := ""
	if len(keys) > maxNamedLabels {
		more = ", …"
	}
	return fmt.Sprintf("%d of spec.clusterLabels are not valid or come after the first %d, and are not copied to a Cluster: %s%s; correct them in the agent's values, or label the Cluster",
		len(keys), maxClusterLabels, strings.Join(named, ", "), more)
}
