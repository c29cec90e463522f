package join

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// ownObject is an object that the agent creates itself. The hooks of its chart delete it with the release.
type ownObject struct {
	kind, namespace, name string
	uid                   types.UID
}

// ownObjects returns the objects of an agent that exist. One that the user may not read counts as existing, without a UID.
func (j *joiner) ownObjects(ctx context.Context) ([]ownObject, error) {
	recovery := names.RecoverySecret(j.namespace)
	var found []ownObject
	for _, one := range []ownObject{
		{kind: "Secret", namespace: j.namespace, name: names.Agent}, {kind: "Secret", namespace: j.namespace, name: names.ReleaseKey},
		{kind: "Secret", namespace: metav1.NamespaceSystem, name: recovery}, {kind: "Secret", namespace: j.namespace, name: recovery},
		{kind: "Lease", namespace: j.namespace, name: names.Agent},
	} {
		var object metav1.Object
		var err error
		if one.kind == "Lease" {
			object, err = j.cluster.Core.CoordinationV1().Leases(one.namespace).Get(ctx, one.name, metav1.GetOptions{})
		} else {
			object, err = j.cluster.Core.CoreV1().Secrets(one.namespace).Get(ctx, one.name, metav1.GetOptions{})
		}
		switch {
		case err == nil:
			one.uid = object.GetUID()
			found = append(found, one)
		case apierrors.IsForbidden(err):
			found = append(found, one)
		case !apierrors.IsNotFound(err):
			return nil, access.Explain("reading "+one.kind+" "+one.namespace+"/"+one.name, err)
		}
	}
	return found, nil
}

// deleteOwn deletes exactly this object.
func (j *joiner) deleteOwn(ctx context.Context, object ownObject) error {
	var client access.Deleter = j.cluster.Core.CoreV1().Secrets(object.namespace)
	if object.kind == "Lease" {
		client = j.cluster.Core.CoordinationV1().Leases(object.namespace)
	}
	return access.Delete(ctx, client, object.kind+" "+object.namespace+"/"+object.name, object.name, object.uid)
}
