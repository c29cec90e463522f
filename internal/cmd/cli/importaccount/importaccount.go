// Package importaccount manages what `fleet import` creates besides the Cluster: the service account on the cluster, and the
// Secret on the hub with its token. `fleet unregister` removes both.
//
//	hub, workspace, name of the Cluster ─► names ─► Account: Ensure (its token), Find, Remove
//
// All objects have a label, and those on the cluster the UID of the hub. Objects without them are never changed, except that
// unregister finds the accounts of earlier releases, whose names two Clusters may share.
package importaccount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// The label of all objects that `fleet import` creates.
const (
	label = "app.kubernetes.io/managed-by"
	mark  = "fleet-import"
)

const (
	// kinds is the number of objects of an account.
	kinds = 3
	// tokenPatience limits the wait for the token of the account.
	tokenPatience = 30 * time.Second
)

// Labels returns the labels of all objects that `fleet import` creates.
func Labels() map[string]string { return map[string]string{label: mark} }

// IsOurs reports whether `fleet import` has created an object.
func IsOurs(object metav1.Object) bool { return object.GetLabels()[label] == mark }

// KubeconfigSecret returns the name of the Secret on the hub with the kubeconfig of a Cluster.
func KubeconfigSecret(cluster string) string { return names.SafeConcat(cluster, "kubeconfig") }

// SharedBy returns another Cluster that names the kubeconfig Secret of a Cluster, as namespace/name, or an empty text. For
// a user with rights to this workspace only, it looks at the Clusters of the workspace.
func SharedBy(ctx context.Context, hub *access.Cluster, workspace, cluster string) (other string, err error) {
	secret := types.NamespacedName{Namespace: workspace, Name: KubeconfigSecret(cluster)}
	look := func(c *fleet.Cluster) error {
		if itself := c.Namespace == workspace && c.Name == cluster; !itself && clusters.KubeconfigSecret(c) == secret {
			other = c.Namespace + "/" + c.Name
		}
		return nil
	}
	_, err = access.Each(ctx, hub.Clusters(metav1.NamespaceAll), metav1.ListOptions{}, look)
	if apierrors.IsForbidden(err) {
		_, err = access.Each(ctx, hub.Clusters(workspace), metav1.ListOptions{}, look)
	}
	return other, access.Explain("reading Clusters", err)
}

// Account is the service account on the cluster that the hub uses, with its binding and its Secret, which have the same
// name. Its token does not expire, because the hub needs it for repairs. Deleting the Secret or the account revokes it.
type Account struct {
	// Name is the name of the account. It contains a hash of hub, workspace and Cluster, because a cluster can be imported by
	// several hubs, and the names of workspace and Cluster alone can be read in two ways.
	Name string

	core kubernetes.Interface
	// hubUID identifies the hub.
	hubUID string
	// earlier is the name that earlier releases used.
	earlier string
	// undo deletes the objects that Ensure has created.
	undo []func(context.Context) error
}

// hashLength is the number of hexadecimal digits in the name of an account.
const hashLength = 16

// New returns the account of a Cluster on its cluster. hubUID is the UID of the hub's namespace kube-system.
func New(core kubernetes.Interface, hubUID, workspace, cluster string) *Account {
	hash := names.SetHash("import/"+hubUID+"/"+workspace+"/"+cluster, names.Owner{})[:hashLength]
	return &Account{
		core: core, hubUID: hubUID,
		Name: names.SafeConcat("fleet-import", workspace, cluster, hash), earlier: names.SafeConcat("fleet-import", workspace, cluster),
	}
}

func (a *Account) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: a.Name, Labels: Labels(), Annotations: map[string]string{annotation.HubUID: a.hubUID},
	}
}

// isOurs reports whether `fleet import` has created an object of the account for this hub.
func (a *Account) isOurs(object metav1.Object) bool {
	return IsOurs(object) && object.GetAnnotations()[annotation.HubUID] == a.hubUID
}

// isEarlier reports whether an earlier release has created an object. Such an object does not name its hub.
func isEarlier(object metav1.Object) bool {
	_, named := object.GetAnnotations()[annotation.HubUID]
	return IsOurs(object) && !named
}

// Objects returns the account, its binding and its Secret.
func (a *Account) Objects() (*corev1.ServiceAccount, *rbacv1.ClusterRoleBinding, *corev1.Secret) {
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: a.meta(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: a.Name}},
	}
	binding.Namespace = ""
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: a.meta(), Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations[corev1.ServiceAccountNameKey] = a.Name
	return &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: a.meta()}, binding, secret
}

// Ensure creates what is missing and returns the token.
func (a *Account) Ensure(ctx context.Context) (string, error) {
	account, binding, secret := a.Objects()
	if err := ensure(ctx, a, account.Kind, a.core.CoreV1().ServiceAccounts(account.Namespace), account); err != nil {
		return "", err
	}
	if err := ensure(ctx, a, binding.Kind, a.core.RbacV1().ClusterRoleBindings(), binding); err != nil {
		return "", err
	}
	if err := ensure(ctx, a, secret.Kind, a.core.CoreV1().Secrets(secret.Namespace), secret); err != nil {
		return "", err
	}
	return a.token(ctx, secret.Namespace)
}

// ensure creates an object, unless it exists with the label.
func ensure[T metav1.Object](ctx context.Context, a *Account, kind string, client interface {
	access.Creator[T]
	access.Deleter
}, object T) error {
	existing, err := client.Get(ctx, a.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		made, err := access.Create(ctx, client, object, func(found T) bool { return a.isOurs(found) })
		if made != nil {
			a.undo = append(a.undo, func(ctx context.Context) error { return access.Delete(ctx, client, kind+" "+a.Name, a.Name, *made) })
		}
		return access.Explain("creating "+kind+" "+a.Name, err)
	case err != nil:
		return access.Explain("reading "+kind+" "+a.Name, err)
	case !a.isOurs(existing):
		return exit.Errorf(exit.Refused, "%s %s exists and was not created by this command", kind, a.Name).
			With(fmt.Sprintf("delete it if nothing needs it: kubectl delete %s -n %s %s", strings.ToLower(kind), metav1.NamespaceSystem, a.Name))
	}
	return nil
}

func (a *Account) token(ctx context.Context, namespace string) (string, error) {
	var found *corev1.Secret
	err := await.Poll(ctx, tokenPatience, func(ctx context.Context) (bool, error) {
		var err error
		found, err = a.core.CoreV1().Secrets(namespace).Get(ctx, a.Name, metav1.GetOptions{})
		return isTokenReady(found), access.Explain("reading Secret "+namespace+"/"+a.Name, err)
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return "", exit.Errorf(exit.Timeout, "the cluster wrote no token into Secret %s/%s within %s", namespace, a.Name, tokenPatience).
			With(fmt.Sprintf("kubectl describe secret -n %s %s", namespace, a.Name))
	case err != nil:
		return "", err
	}
	return string(found.Data[corev1.ServiceAccountTokenKey]), nil
}

// Token returns the token of the account, or an empty text if the cluster does not have all of its objects.
func (a *Account) Token(ctx context.Context) (string, error) {
	parts, err := a.find(ctx, a.Name, a.isOurs)
	if err != nil || len(parts) < kinds {
		return "", err
	}
	found, err := access.Find(ctx, a.core.CoreV1().Secrets(metav1.NamespaceSystem), "Secret "+a.Name, a.Name)
	if err != nil || !isTokenReady(found) {
		return "", err
	}
	return string(found.Data[corev1.ServiceAccountTokenKey]), nil
}

// isTokenReady reports whether the cluster has written a token into a Secret.
func isTokenReady(secret *corev1.Secret) bool {
	return secret != nil && len(bytes.TrimSpace(secret.Data[corev1.ServiceAccountTokenKey])) > 0
}

// Part is an object of the account that exists.
type Part struct {
	Kind, Namespace, Name string
	// Earlier means that an earlier release has created it. Another Cluster or hub may use it, too.
	Earlier bool
	// Delete deletes the object, if it is still the same one.
	Delete func(context.Context) error
}

// Find returns the objects of the account that exist, in the order of their deletion. The binding is the first, because the
// rights end with it. Those of an earlier release follow.
func (a *Account) Find(ctx context.Context) ([]Part, error) {
	parts, err := a.find(ctx, a.Name, a.isOurs)
	if err != nil {
		return nil, err
	}
	earlier, err := a.find(ctx, a.earlier, isEarlier)
	for i := range earlier {
		earlier[i].Earlier = true
	}
	return append(parts, earlier...), err
}

// find returns the objects of this name.
func (a *Account) find(ctx context.Context, name string, isOurs func(metav1.Object) bool) ([]Part, error) {
	bindings, secrets := a.core.RbacV1().ClusterRoleBindings(), a.core.CoreV1().Secrets(metav1.NamespaceSystem)
	accounts := a.core.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	binding, bindingErr := bindings.Get(ctx, name, metav1.GetOptions{})
	secret, secretErr := secrets.Get(ctx, name, metav1.GetOptions{})
	account, accountErr := accounts.Get(ctx, name, metav1.GetOptions{})
	var parts []Part
	for _, one := range []struct {
		kind, namespace string
		object          metav1.Object
		err             error
		client          access.Deleter
	}{
		{"ClusterRoleBinding", "", binding, bindingErr, bindings},
		{"Secret", metav1.NamespaceSystem, secret, secretErr, secrets},
		{"ServiceAccount", metav1.NamespaceSystem, account, accountErr, accounts},
	} {
		switch {
		case apierrors.IsNotFound(one.err):
		case one.err != nil:
			return nil, access.Explain(fmt.Sprintf("reading %s %s", one.kind, name), one.err)
		case isOurs(one.object):
			parts = append(parts, Part{Kind: one.kind, Namespace: one.namespace, Name: name, Delete: func(ctx context.Context) error {
				return access.Delete(ctx, one.client, one.kind+" "+name, name, one.object.GetUID())
			}})
		}
	}
	return parts, nil
}

// Created reports whether Ensure has created one of the objects.
func (a *Account) Created() bool { return len(a.undo) > 0 }

// Undo deletes the objects that Ensure has created.
func (a *Account) Undo(ctx context.Context) error {
	var problems []error
	for _, undo := range a.undo {
		problems = append(problems, undo(ctx))
	}
	return errors.Join(problems...)
}
