package importcluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Objects that this command creates have this label. It changes no others.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "fleet-import"
)

// tokenPatience limits the wait for the token of the account.
const tokenPatience = 30 * time.Second

// account is the service account on the cluster that the hub uses. Its token does not expire, because the hub needs it for
// repairs. Deleting the Secret or the account revokes it.
type account struct {
	core kubernetes.Interface
	name string
	// created means that this run has created it.
	created bool
}

// accountName is the name of the account, its binding and its Secret.
func accountName(workspace, cluster string) string {
	return names.SafeConcat("fleet-import", workspace, cluster)
}

func (a *account) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: a.name, Labels: map[string]string{labelManagedBy: managedBy}}
}

// objects returns the account, its binding and its Secret.
func (a *account) objects() (*corev1.ServiceAccount, *rbacv1.ClusterRoleBinding, *corev1.Secret) {
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: a.meta(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: a.name}},
	}
	binding.Namespace = ""
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: a.meta(), Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: a.name}
	return &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: a.meta()}, binding, secret
}

// ensure creates what is missing and returns the token.
func (a *account) ensure(ctx context.Context) (string, error) {
	account, binding, secret := a.objects()
	existing, err := a.core.CoreV1().ServiceAccounts(account.Namespace).Get(ctx, a.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		a.created = true
		if _, err := a.core.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
			return "", access.Explain("creating ServiceAccount "+account.Namespace+"/"+a.name, err)
		}
	case err != nil:
		return "", access.Explain("reading ServiceAccount "+account.Namespace+"/"+a.name, err)
	case existing.Labels[labelManagedBy] != managedBy:
		return "", exit.Errorf(exit.Refused, "ServiceAccount %s/%s exists and was not created by this command", account.Namespace, a.name).
			With(fmt.Sprintf("delete it if nothing needs it: kubectl delete serviceaccount -n %s %s", account.Namespace, a.name))
	}
	if _, err := a.core.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", access.Explain("creating ClusterRoleBinding "+a.name, err)
	}
	if _, err := a.core.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", access.Explain("creating Secret "+secret.Namespace+"/"+a.name, err)
	}
	return a.token(ctx, secret.Namespace)
}

func (a *account) token(ctx context.Context, namespace string) (string, error) {
	var found *corev1.Secret
	err := wait.PollUntilContextTimeout(ctx, pollInterval, tokenPatience, true, func(ctx context.Context) (bool, error) {
		var err error
		found, err = a.core.CoreV1().Secrets(namespace).Get(ctx, a.name, metav1.GetOptions{})
		return isTokenReady(found), access.Explain("reading Secret "+namespace+"/"+a.name, err)
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return "", exit.Errorf(exit.Timeout, "the cluster wrote no token into Secret %s/%s within %s", namespace, a.name, tokenPatience).
			With(fmt.Sprintf("kubectl describe secret -n %s %s", namespace, a.name))
	case err != nil:
		return "", err
	}
	return string(found.Data[corev1.ServiceAccountTokenKey]), nil
}

// remove deletes what ensure has created. The Secret goes with its account.
func (a *account) remove(ctx context.Context) error {
	if !a.created {
		return nil
	}
	err := a.core.RbacV1().ClusterRoleBindings().Delete(ctx, a.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return access.Explain("deleting ClusterRoleBinding "+a.name, err)
	}
	err = a.core.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, a.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return access.Explain("deleting Secret "+a.name, err)
	}
	err = a.core.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Delete(ctx, a.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return access.Explain("deleting ServiceAccount "+a.name, err)
	}
	return nil
}
