package grant

import (
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Most objects of a request are in its workspace or in its Cluster's namespace. The Role and RoleBinding that make
// its answer readable are in one namespace for all workspaces, and are named after the request. Two requests of the
// same name, by chance or on purpose, would overwrite each other's objects for ever. So only the older one uses the
// plain name.

// SharedName returns the name of a request's objects in the namespace that all workspaces share.
func SharedName(in Input) string {
	for _, other := range in.Namesakes {
		if precedes(other, in.Request) {
			return names.Namesake(in.Request.Namespace, in.Request.Name)
		}
	}
	return in.Request.Name
}

// precedes orders two requests of one name by creation, and those of the same second by workspace. This order never
// changes.
func precedes(a, b *fleet.ClusterRegistration) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Namespace < b.Namespace
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// ReaderName returns the name of the Role and the RoleBinding that make one credential readable. shared is the
// request's SharedName.
func ReaderName(shared string) string { return names.SafeConcat(shared, "creds") }

// ReaderNames returns all names that a request's Role and RoleBinding may have. Their annotations show which request
// they belong to.
func ReaderNames(workspace, request string) []string {
	return []string{ReaderName(request), ReaderName(names.Namesake(workspace, request))}
}
