package join

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// ownObject is an object that the agent creates itself. The hooks of its chart delete it with the release.
type ownObject struct {
	resource              schema.GroupVersionResource
	kind, namespace, name string
	uid                   types.UID
}

func (o ownObject) String() string { return o.kind + " " + o.namespace + "/" + o.name }

// ownObjects returns the objects of an agent that exist. One that the user may not read counts as existing, without a UID.
func (j *joiner) ownObjects(ctx context.Context) ([]ownObject, error) {
	secrets, leases := corev1.SchemeGroupVersion.WithResource("secrets"), coordinationv1.SchemeGroupVersion.WithResource("leases")
	recovery := names.RecoverySecret(j.namespace)
	var found []ownObject
	for _, one := range []ownObject{
		{secrets, "Secret", j.namespace, names.Agent, ""}, {secrets, "Secret", j.namespace, names.ReleaseKey, ""},
		{secrets, "Secret", metav1.NamespaceSystem, recovery, ""}, {secrets, "Secret", j.namespace, recovery, ""},
		{leases, "Lease", j.namespace, names.Agent, ""},
	} {
		object, err := j.cluster.Metadata.Resource(one.resource).Namespace(one.namespace).Get(ctx, one.name, metav1.GetOptions{})
		switch {
		case err == nil:
			one.uid = object.UID
			found = append(found, one)
		case apierrors.IsForbidden(err):
			found = append(found, one)
		case !apierrors.IsNotFound(err):
			return nil, access.Explain("reading "+one.String(), err)
		}
	}
	return found, nil
}
