package grant

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// isReader reports whether a hub created a Role or RoleBinding to make a credential readable. Ours name the request.
// Those of Rancher Fleet are in the request's set.
func isReader(object reconcile.Object) bool {
	return object.GetLabels()[fleet.LabelManaged] == "true" &&
		(len(requestOf(object)) > 0 || object.GetAnnotations()[fleet.AnnotationSetID] == grant.SetID)
}

// readersOf returns a function that reports whether a Role or RoleBinding makes a credential readable that still
// exists. Only those of Rancher Fleet are members of a request's set. Without them, an agent that has not fetched its
// credential yet would wait for half an hour. They are deleted with the credential.
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
