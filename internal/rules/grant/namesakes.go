package grant

import (
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Most of what a request is given is in its workspace or in its Cluster's namespace. What lets it read its answer is
// where that of all workspaces is, and named after the request alone: two requests of one name, by chance or because
// somebody wants it, would take it from each other for ever. The older one has the name to itself.

// SharedName is what a request's objects are named after where those of all workspaces are.
func SharedName(in Input) string {
	for _, other := range in.Namesakes {
		if precedes(other, in.Request) {
			return names.Namesake(in.Request.Namespace, in.Request.Name)
		}
	}
	return in.Request.Name
}

// precedes orders two requests of one name by creation; those of the same second by their workspaces. Nothing changes that.
func precedes(a, b *fleet.ClusterRegistration) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Namespace < b.Namespace
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// ReaderName is the name of the Role and of the RoleBinding that make one credential readable, for a request's
// SharedName.
func ReaderName(shared string) string { return names.SafeConcat(shared, "creds") }

// ReaderNames are all that a request's may have: whose an object is, its annotations say.
func ReaderNames(workspace, request string) []string {
	return []string{ReaderName(request), ReaderName(names.Namesake(workspace, request))}
}
