package clusters

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// IsAnother reports whether the owner is an earlier Cluster with the same name but another UID.
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

// FirstOf returns the Cluster that agents join as, of those with the same client ID: the oldest one that is not being
// deleted.
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
