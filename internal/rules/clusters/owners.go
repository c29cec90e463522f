package clusters

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// IsAnother says whether the owners tell of a Cluster that is gone: of this one's name, but not this one.
func IsAnother(cluster *fleet.Cluster, owners []metav1.OwnerReference) bool {
	namesake := false
	for _, owner := range owners {
		if owner.Kind == "Cluster" && owner.UID == cluster.UID {
			return false
		}
		namesake = namesake || owner.Kind == "Cluster" && owner.Name == cluster.Name
	}
	return namesake
}

func LastSeen(cluster *fleet.Cluster) string {
	if cluster.Status.Agent.LastSeen.IsZero() {
		return ""
	}
	return cluster.Status.Agent.LastSeen.UTC().Format(time.RFC3339)
}

// FirstOf is the Cluster that agents join as, of those with one client ID.
func FirstOf(found []*fleet.Cluster) *fleet.Cluster {
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *fleet.Cluster) int {
		if going := a.DeletionTimestamp != nil; going != (b.DeletionTimestamp != nil) {
			if going {
				return 1
			}
			return -1
		}
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
}
