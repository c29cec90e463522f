package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/recovery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// leavingRecheck is the time after which a Cluster that is being deleted is reconciled again without an event: a
// namespace without our annotations does not show which Cluster it belongs to.
const leavingRecheck = 2 * time.Second

// takenRecheck is the time after which a Cluster is reconciled again whose namespace was not made for it.
const takenRecheck = 15 * time.Second

type handler struct {
	app *hub.App
	// lasting is the context of requests that no kind's client makes.
	lasting context.Context //nolint:containedctx // handlers are called without a context
	// blocked has the namespace's UID of each gone Cluster whose namespace is being deleted and whose tickets are blocked.
	// It saves a read for each event of the namespace.
	blocked sync.Map
}

// Register watches Clusters and their namespaces. It also watches the objects in these namespaces that delay the
// deletion of a Cluster.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a, lasting: ctx}
	a.Clusters.OnChange(hub.Lasting(ctx), "cluster", h.onChange)
	enqueue := reconcile.Enqueue(a.Clusters)
	return errors.Join(
		reconcile.Watch(a.AllNamespaces.Informer(), clusterOfNamespace, enqueue),
		reconcile.Watch(a.ServiceAccounts.Informer(), h.leavingOfAccount, enqueue),
		reconcile.Watch(a.BundleDeployments.Informer(), h.leavingOfDeployment, enqueue),
	)
}

func (h *handler) onChange(key string, cluster *fleet.Cluster) (*fleet.Cluster, error) {
	if cluster == nil {
		return nil, h.deleteLeftovers(reconcile.ParseKey(key))
	}
	if isNew(cluster) && h.app.Probes.Start(cluster) {
		return cluster, nil // the end of the probe enqueues it
	}
	in, err := h.gather(cluster)
	if err != nil {
		return cluster, err
	}
	return h.act(in, decide(in))
}

func (h *handler) gather(cluster *fleet.Cluster) (input, error) {
	in := input{now: h.app.Clock(), cluster: cluster}
	name := clusters.NamespaceOf(cluster)
	var err error
	if in.namespace, err = reconcile.Optional(h.app.AllNamespaces.Cache().Get(name)); err != nil {
		return in, fmt.Errorf("reading Namespace %s from the cache: %w", name, err)
	}
	if cluster.DeletionTimestamp == nil && (in.namespace == nil || in.namespace.DeletionTimestamp == nil) {
		return in, nil // everything else matters only if the Cluster or its namespace is being deleted
	}
	return h.gatherLeft(in, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
}

// gatherLeft adds the Cluster's objects in its namespace, unless that was made for another Cluster.
func (h *handler) gatherLeft(in input, cluster types.NamespacedName) (input, error) {
	if clusters.ClaimOf(in.namespace, cluster) == clusters.NamespaceOfAnother {
		return in, nil
	}
	name := names.ClusterNamespace(cluster.Namespace, cluster.Name)
	accounts, err := h.app.ServiceAccounts.Cache().List(name, labels.Everything())
	if err != nil {
		return in, fmt.Errorf("listing ServiceAccounts in namespace %s: %w", name, err)
	}
	for _, account := range accounts {
		if clusters.IsAccountOf(account, cluster) && account.DeletionTimestamp == nil {
			in.accounts = append(in.accounts, account)
		}
	}
	bindings, err := h.app.RoleBindings.Cache().List(name, labels.Everything())
	if err != nil {
		return in, fmt.Errorf("listing RoleBindings in namespace %s: %w", name, err)
	}
	in.hasRights = len(bindings) > 0
	in.rights = slices.DeleteFunc(slices.Clone(bindings), func(b *rbacv1.RoleBinding) bool { return !isForAgent(b) || b.DeletionTimestamp != nil })
	if in.deployments, err = h.app.BundleDeployments.Cache().List(name, labels.Everything()); err != nil {
		return in, fmt.Errorf("listing BundleDeployments in namespace %s: %w", name, err)
	}
	return in, nil
}

// isForAgent reports whether a RoleBinding lets an agent read BundleDeployments.
func isForAgent(binding *rbacv1.RoleBinding) bool {
	return binding.RoleRef.Kind == "ClusterRole" && binding.RoleRef.Name == names.BundleDeploymentRole
}

func (h *handler) act(in input, out outcome) (*fleet.Cluster, error) {
	cluster, err := in.cluster, error(nil)
	if out.stage == managedElsewhere {
		return cluster, nil
	}
	if out.addFinalizer || out.tidySpec {
		if cluster, err = h.setFinalizer(cluster, true); err != nil {
			return in.cluster, err
		}
	}
	if out.createNamespace != nil {
		there, err := h.createNamespace(cluster, out.createNamespace)
		if there != nil {
			in.namespace = there // the cache does not have it yet
			return h.act(in, decide(in))
		}
		if err != nil {
			out.namespaceName, out.processed = cluster.Status.Namespace, failed(err)
			cluster, reportErr := h.report(in, cluster, out)
			return cluster, errors.Join(err, reportErr)
		}
	}
	if err := h.takeApart(in, out); err != nil {
		return h.cannotLeave(in, err)
	}
	h.requeue(cluster, out.stage)
	if out.removeFinalizer {
		if err := h.blockTickets(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}, recovery.LatestTicket(cluster, in.now)); err != nil {
			return h.cannotLeave(in, err)
		}
		h.app.Log.Info("cluster gone", "cluster", reconcile.KeyOf(cluster).String())
		return h.setFinalizer(cluster, false)
	}
	return h.report(in, cluster, out)
}

// requeue enqueues a Cluster that waits for something whose deletion may cause no event.
func (h *handler) requeue(cluster *fleet.Cluster, reached stage) {
	switch reached {
	case revoking, draining, awaitingNamespace:
		h.app.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, leavingRecheck)
	case namespaceTaken:
		h.app.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, takenRecheck)
	default:
	}
}

// cannotLeave reports on a Cluster that is being deleted why it stays, if the API server's answer may persist. The
// queue retries it.
func (h *handler) cannotLeave(in input, err error) (*fleet.Cluster, error) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) {
		return in.cluster, err
	}
	cluster, reportErr := h.report(in, in.cluster, outcome{namespaceName: in.cluster.Status.Namespace, processed: failed(err)})
	return cluster, errors.Join(err, reportErr)
}

// takeApart deletes what the outcome names. Only stages of deletion name anything.
func (h *handler) takeApart(in input, out outcome) error {
	if out.stage == draining { // before the namespace is gone: if a user removes the finalizer then, nothing else blocks them
		cluster := in.cluster
		if err := h.blockSince(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}, *cluster.DeletionTimestamp, recovery.LatestTicket(cluster, in.now)); err != nil {
			return err
		}
	}
	if err := errors.Join(h.revoke(out.revoke, out.unbind), h.drain(out.drain)); err != nil {
		return err
	}
	if out.deleteNamespace {
		return h.deleteNamespace(in.namespace)
	}
	return nil
}

// createNamespace creates the namespace of a Cluster. If a namespace of this name exists already, it is returned.
func (h *handler) createNamespace(cluster *fleet.Cluster, namespace *corev1.Namespace) (there *corev1.Namespace, err error) {
	_, err = h.app.AllNamespaces.Create(namespace)
	if apierrors.IsAlreadyExists(err) {
		there, err = h.app.AllNamespaces.Get(namespace.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("creating the cluster's namespace: %w", err)
	}
	if there == nil {
		h.app.Log.Info("cluster namespace created", "cluster", reconcile.KeyOf(cluster).String(), "namespace", namespace.Name)
	}
	return there, nil
}

func failed(err error) *genericcondition.GenericCondition {
	return &genericcondition.GenericCondition{
		Type: conditions.Processed, Status: corev1.ConditionFalse, Reason: conditions.ReasonError, Message: err.Error(),
	}
}

func (h *handler) report(in input, cluster *fleet.Cluster, out outcome) (*fleet.Cluster, error) {
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		c.Status.Namespace = out.namespaceName
		if out.processed != nil {
			conditions.Set(&c.Status.Conditions, in.now, *out.processed)
		}
		for _, condition := range notImported(c) {
			conditions.Set(&c.Status.Conditions, in.now, condition)
		}
	})
}

// setFinalizer adds or removes the finalizer. When adding it, it also removes an empty scheduling customisation from
// the spec.
func (h *handler) setFinalizer(cluster *fleet.Cluster, wanted bool) (*fleet.Cluster, error) {
	return reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if wanted && meansNothing(c.Spec.AgentSchedulingCustomization) {
			c.Spec.AgentSchedulingCustomization = nil
		}
		switch {
		case !wanted:
			c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == fleet.FinalizerCluster })
		case c.DeletionTimestamp == nil && !hasFinalizer(c): // later ones are refused by the server
			c.Finalizers = append(c.Finalizers, fleet.FinalizerCluster)
		}
	})
}

// revoke deletes accounts, which invalidates all their tokens, and their rights.
func (h *handler) revoke(accounts []*corev1.ServiceAccount, rights []*rbacv1.RoleBinding) error {
	var failures []error
	for _, account := range accounts {
		if err := reconcile.Delete(h.app.ServiceAccounts, account); err != nil {
			failures = append(failures, fmt.Errorf("revoking account %s/%s: %w", account.Namespace, account.Name, err))
		}
	}
	for _, binding := range rights {
		if err := reconcile.Delete(h.app.RoleBindings, binding); err != nil {
			failures = append(failures, fmt.Errorf("deleting RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err))
		}
	}
	return errors.Join(failures...)
}

// drain removes the finalizers that only an agent would remove.
func (h *handler) drain(deployments []*fleet.BundleDeployment) error {
	var failures []error
	for _, deployment := range deployments {
		_, err := reconcile.Patch(h.app.BundleDeployments, deployment, func(d *fleet.BundleDeployment) {
			d.Finalizers = slices.DeleteFunc(d.Finalizers, func(f string) bool { return f == fleet.FinalizerBundleDeployment })
		})
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func (h *handler) deleteNamespace(namespace *corev1.Namespace) error {
	if err := reconcile.IgnoreGone(h.app.AllNamespaces.Delete(namespace.Name, reconcile.Exactly(namespace))); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", namespace.Name, err)
	}
	return nil
}

// clusterOfNamespace returns the Cluster that the annotations of a namespace name.
func clusterOfNamespace(namespace *corev1.Namespace) []types.NamespacedName {
	return named(namespace.Annotations[fleet.AnnotationClusterNamespace], namespace.Annotations[fleet.AnnotationCluster])
}

// leavingOfAccount returns the Cluster of an agent's account, if the Cluster is being deleted or gone.
func (h *handler) leavingOfAccount(account *corev1.ServiceAccount) []types.NamespacedName {
	return h.ifLeaving(account.Annotations[fleet.AnnotationClusterRegistrationNamespace], account.Annotations[fleet.AnnotationCluster])
}

// leavingOfDeployment returns the Cluster of a BundleDeployment, if the Cluster is being deleted or gone.
func (h *handler) leavingOfDeployment(deployment *fleet.BundleDeployment) []types.NamespacedName {
	return h.ifLeaving(deployment.Labels[fleet.LabelClusterNamespace], deployment.Labels[fleet.LabelCluster])
}

// ifLeaving drops the events of accounts and BundleDeployments whose Cluster is not being deleted.
func (h *handler) ifLeaving(namespace, name string) []types.NamespacedName {
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(namespace, name))
	if err != nil || cluster != nil && cluster.DeletionTimestamp == nil {
		return nil
	}
	return named(namespace, name)
}

func named(namespace, name string) []types.NamespacedName {
	if namespace == "" || name == "" {
		return nil
	}
	return []types.NamespacedName{{Namespace: namespace, Name: name}}
}
