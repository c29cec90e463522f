package capi

import (
	"maps"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Follow changes the metadata and the template values of a Cluster of Fleet to those of the Cluster of Cluster API. Labels
// that do not come from there stay, also if the Cluster of Cluster API has a label with the same key.
func Follow(cluster *fleet.Cluster, from *Cluster) {
	ours := map[string]bool{}
	for key := range strings.SplitSeq(cluster.Annotations[annotation.CAPILabels], ",") {
		ours[key] = true
	}
	labels := maps.Clone(cluster.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key := range ours {
		if _, stays := from.Labels[key]; !stays {
			delete(labels, key)
		}
	}
	var copied []string
	for _, key := range slices.Sorted(maps.Keys(from.Labels)) {
		if _, exists := labels[key]; exists && !ours[key] {
			continue
		}
		labels[key] = from.Labels[key]
		copied = append(copied, key)
	}
	cluster.Labels = labels
	followValues(cluster, from)
	objects.Annotate(cluster, annotation.CAPICluster, MarkOf(from))
	objects.Annotate(cluster, annotation.CAPILabels, strings.Join(copied, ","))
	objects.Annotate(cluster, annotation.CAPIKept, "")
	objects.Annotate(cluster, annotation.CAPIImported, "")
}

// Keep records why the hub does not delete a Cluster together with the one of Cluster API. Other reasons for which it is not
// changed leave that as it is.
func Keep(cluster *fleet.Cluster, reason string) {
	if reason == conditions.ReasonClusterPaused || reason == conditions.ReasonNotSelected {
		objects.Annotate(cluster, annotation.CAPIKept, reason)
	}
}

// NoteImported records on a Cluster that a user imported to which Cluster of Cluster API it belongs.
func NoteImported(cluster *fleet.Cluster, from *Cluster) {
	objects.Annotate(cluster, annotation.CAPIImported, string(from.UID))
}
