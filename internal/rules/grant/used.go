package grant

import (
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Used says whether the agent was heard of with the credential that a request was granted: its Cluster's last
// heartbeat is another one than that noted before the grant. Of requests that others have granted nobody knows. A
// Cluster that is not there was heard of by nobody.
func Used(request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	before, noted := request.Annotations[fleet.AnnotationLastSeenAtGrant]
	if !noted || cluster == nil {
		return false
	}
	seen := clusters.LastSeen(cluster)
	return seen != "" && seen != before
}

// speaksAnother says whether the last heartbeat is known to be another account's than that of the request.
func speaksAnother(in Input) bool {
	return in.Speaker != "" && (in.Account == nil || in.Speaker != string(in.Account.UID))
}
