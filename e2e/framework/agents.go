package framework

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Annotations of a Deployment.
const (
	// ReleaseAnnotation names the Helm release to which the Deployment belongs.
	ReleaseAnnotation = "meta.helm.sh/release-name"
	// RevisionAnnotation counts the Deployment's pod templates. "1" means that its pods were never replaced.
	RevisionAnnotation = "deployment.kubernetes.io/revision"
)

// Managed waits until a Cluster's agent is managed by its Bundle and ready. It returns the BundleDeployment and
// the agent's Deployment on the downstream cluster.
func (u *User) Managed(ctx context.Context, downstream string, cluster *fleet.Cluster) (*fleet.BundleDeployment, *appsv1.Deployment, error) {
	bundle := names.AgentBundle(cluster.Name)
	managed, err := client.Until(ctx, client.Await{
		From: u.Hub.Fleet, Resource: client.BundleDeployments, Namespace: cluster.Status.Namespace, Name: bundle,
		For: "the agent of " + downstream + " to be managed by its Bundle", Within: Patience,
	}, func(d *fleet.BundleDeployment) bool {
		return d.Status.Ready && d.Status.AppliedDeploymentID == d.Spec.DeploymentID
	})
	if err != nil {
		return nil, nil, err
	}
	deployment, err := u.On(downstream).Kube.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the agent's Deployment on %s: %w", downstream, err)
	}
	return managed, deployment, nil
}

// AgentRemains returns what a cluster has of agents and of the accounts of imports: the namespace, and objects outside it.
func (u *User) AgentRemains(ctx context.Context, cluster string) ([]string, error) {
	kube, options := u.On(cluster).Kube, metav1.ListOptions{}
	namespaces, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + names.SystemNamespace})
	if err != nil {
		return nil, err
	}
	roles, err := kube.RbacV1().ClusterRoles().List(ctx, options)
	if err != nil {
		return nil, err
	}
	bindings, err := kube.RbacV1().ClusterRoleBindings().List(ctx, options)
	if err != nil {
		return nil, err
	}
	accounts, err := kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var remains []string
	for _, list := range []runtime.Object{namespaces, roles, bindings, accounts} {
		if err := meta.EachListItem(list, func(object runtime.Object) error {
			if name := object.(metav1.Object).GetName(); strings.Contains(name, "fleet") {
				remains = append(remains, fmt.Sprintf("%T %s", object, name))
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return remains, nil
}
