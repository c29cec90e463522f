package grant

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// isReader reports whether a hub made a Role or RoleBinding to let a credential be read. Ours name the request, those of
// another implementation are in its set.
func isReader(object reconcile.Object) bool {
	return object.GetLabels()[fleet.LabelManaged] == "true" &&
		(len(requestOf(object)) > 0 || object.GetAnnotations()[fleet.AnnotationSetID] == grant.SetID)
}

// readersOf says whether a Role or RoleBinding lets somebody read a credential that is still there. Ours are no
// members of a request's set, but those of another implementation are: without them an agent that it answered, and
// that has not fetched its credential yet, would wait for half an hour. They go with the credential.
func readersOf(a *hub.Context) func(reconcile.Object) bool {
	secrets := a.CredentialSecrets.Cache()
	return func(member reconcile.Object) bool {
		if member.GetNamespace() != a.Namespaces.Registration {
			return false
		}
		set := labels.Set{fleet.LabelSetHash: member.GetLabels()[fleet.LabelSetHash]}
		found, err := secrets.List(a.Namespaces.Registration, set.AsSelector())
		return err != nil || len(found) > 0
	}
}
