package grant

import (
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// superseded are the older requests of the same client or Cluster, once the agent was seen with the new credential.
func superseded(in Input, cluster *fleet.Cluster) []string {
	before, noted := in.Request.Annotations[fleet.AnnotationLastSeenAtGrant]
	if seen := clusters.LastSeen(cluster); noted && (seen == "" || seen == before) {
		return nil // the old credential may be the only one in use
	}
	var older []string
	for _, other := range in.Others {
		if givesWay(other, in.Request, cluster) && isOlder(other, in.Request) {
			older = append(older, other.Name)
		}
	}
	sort.Strings(older)
	return older
}

// givesWay says whether another request is about the same agent: it comes from the same client, or was made for the
// same Cluster when that had another client ID. Two of one client and random wait for the same credential.
func givesWay(other, request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	if other.Spec.ClientID == request.Spec.ClientID {
		return other.Spec.ClientRandom != request.Spec.ClientRandom
	}
	return other.Status.ClusterName == cluster.Name
}

// isOlder orders requests by creation, then by grant, both of which the API tells in seconds, then by who was
// written last, which is who was granted last, then by name: of any two exactly one is older.
func isOlder(a, b *fleet.ClusterRegistration) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if x, y := grantedAt(a), grantedAt(b); x != y {
		return x != "" && (y == "" || x < y) // one still in flight is the newer
	}
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && order != 0 {
		return order < 0
	}
	return a.Name < b.Name
}

func grantedAt(request *fleet.ClusterRegistration) string {
	if granted := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted); granted != nil && granted.Status == corev1.ConditionTrue {
		return granted.LastUpdateTime
	}
	return ""
}
