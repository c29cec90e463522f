package cluster

import (
	"slices"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// stage describes the progress of a Cluster.
type stage string

const (
	// managedElsewhere means that another manager owns the Cluster: nothing is done.
	managedElsewhere stage = "ManagedElsewhere"
	// awaitingNamespace means that an old namespace of the Cluster is still being deleted. When the rights of agents in it
	// are gone, the finalizers of its BundleDeployments are removed. The end of the deletion enqueues the Cluster.
	awaitingNamespace stage = "AwaitingNamespace"
	// namespaceTaken means that the namespace with the Cluster's computed name was not made for it. Nothing is
	// created in it.
	namespaceTaken stage = "NamespaceTaken"
	// settled means that the Cluster has its finalizer and its namespace.
	settled stage = "Settled"
	// revoking means that the Cluster is being deleted. Its agents' accounts and rights are deleted first, so that the
	// workloads downstream stay: an agent without rights does not notice the deletions on the hub. An API server may
	// accept the token of a deleted account for some seconds.
	revoking stage = "Revoking"
	// draining means that the namespace is being deleted, and that BundleDeployments in it still wait for an agent
	// that will not come. Their finalizers are removed.
	draining stage = "Draining"
	// left means that nothing of the Cluster delays its deletion any longer.
	left stage = "Left"
)

// input describes the observed state of a Cluster. A nil object does not exist.
type input struct {
	now     time.Time
	cluster *fleet.Cluster
	// namespace is the namespace with the Cluster's computed name.
	namespace *corev1.Namespace
	// accounts are the accounts of agents in that namespace, and deployments its BundleDeployments.
	accounts    []*corev1.ServiceAccount
	deployments []*fleet.BundleDeployment
	// rights are the RoleBindings for agents in that namespace. hasRights reports whether any RoleBindings exist there.
	rights    []*rbacv1.RoleBinding
	hasRights bool
}

// outcome describes what to do for a Cluster now.
type outcome struct {
	stage stage
	// addFinalizer comes first, removeFinalizer last.
	addFinalizer, removeFinalizer bool
	// tidySpec removes an empty scheduling customisation.
	tidySpec        bool
	createNamespace *corev1.Namespace
	deleteNamespace bool
	revoke          []*corev1.ServiceAccount
	unbind          []*rbacv1.RoleBinding
	drain           []*fleet.BundleDeployment
	// namespaceName and processed are written to the Cluster's status. processed is nil if the condition does not
	// change.
	namespaceName string
	processed     *genericcondition.GenericCondition
}

// decide returns what to do for a Cluster now.
func decide(in input) outcome {
	switch {
	case in.cluster.DeletionTimestamp != nil:
		return leave(in)
	case in.cluster.Labels[fleet.LabelClusterManagement] != "":
		return outcome{stage: managedElsewhere}
	}
	out := outcome{
		stage:         settled,
		addFinalizer:  !hasFinalizer(in.cluster),
		tidySpec:      meansNothing(in.cluster.Spec.AgentSchedulingCustomization),
		namespaceName: clusters.NamespaceOf(in.cluster),
		processed:     &genericcondition.GenericCondition{Type: conditions.Processed, Status: corev1.ConditionTrue},
	}
	switch {
	case in.namespace == nil:
		out.createNamespace = clusterNamespace(in.cluster)
	case in.namespace.DeletionTimestamp != nil:
		out.stage = awaitingNamespace
		out.namespaceName = in.cluster.Status.Namespace // not before the namespace can be used
		if !in.hasRights {                              // an agent with rights would uninstall what it does not find
			out.drain = waiting(in.deployments)
		}
		out.processed = &genericcondition.GenericCondition{
			Type: conditions.Processed, Status: corev1.ConditionFalse, Reason: conditions.ReasonAwaitingNamespace,
			Message: "the cluster's namespace is being deleted; the hub creates it again after that",
		}
	case !isPlace(in.namespace, in.cluster):
		out.stage, out.namespaceName = namespaceTaken, ""
		out.processed = &genericcondition.GenericCondition{
			Type: conditions.Processed, Status: corev1.ConditionFalse, Reason: conditions.ReasonNamespaceTaken,
			Message: takenMessage(in.namespace, in.cluster),
		}
	}
	return out
}

// isPlace reports whether a Cluster may use a namespace for its BundleDeployments and its agent's account: the
// namespace was made for this Cluster. A namespace that lost its marks is used only by a Cluster that has used it
// before.
func isPlace(namespace *corev1.Namespace, cluster *fleet.Cluster) bool {
	switch clusters.ClaimOf(namespace, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}) {
	case clusters.NamespaceOwn:
		return true
	case clusters.NamespaceUnclaimed:
		return cluster.Status.Namespace == namespace.Name
	}
	return false
}

func takenMessage(namespace *corev1.Namespace, cluster *fleet.Cluster) string {
	if clusters.ClaimOf(namespace, types.NamespacedName{}) == clusters.NamespaceOfAnother {
		return "namespace " + namespace.Name + " was created for another Cluster: register this one under another, shorter name"
	}
	return "namespace " + namespace.Name + " exists and was not created for this Cluster: delete it, or let the Cluster use it with " +
		"`kubectl annotate namespace " + namespace.Name + " " + fleet.AnnotationClusterNamespace + "=" + cluster.Namespace + " " +
		fleet.AnnotationCluster + "=" + cluster.Name + "`"
}

// isNew reports whether nothing was created yet for a Cluster that this hub manages.
func isNew(cluster *fleet.Cluster) bool {
	return cluster.DeletionTimestamp == nil && cluster.Labels[fleet.LabelClusterManagement] == "" &&
		cluster.Status.Namespace == "" && !hasFinalizer(cluster)
}

// meansNothing reports whether a scheduling customisation exists but is empty. It must not be taken for a setting.
func meansNothing(custom *fleet.AgentSchedulingCustomization) bool {
	return custom != nil && custom.PriorityClass == nil && custom.PodDisruptionBudget == nil
}

// notImported returns the initial conditions of a Cluster whose agent registers itself. There is nothing to import,
// and the import would set the same conditions in a separate write.
func notImported(cluster *fleet.Cluster) (begin []genericcondition.GenericCondition) {
	if cluster.Spec.KubeConfigSecret != "" || cluster.Spec.ClientID == "" || cluster.DeletionTimestamp != nil || cluster.Labels[fleet.LabelClusterManagement] != "" {
		return nil
	}
	for _, condition := range []string{conditions.Imported, conditions.Reconciled} {
		if conditions.Get(cluster.Status.Conditions, condition) == nil {
			begin = append(begin, genericcondition.GenericCondition{Type: condition, Status: corev1.ConditionTrue})
		}
	}
	return begin
}

// leave deletes a Cluster's parts in order: the rights, then the finalizers that wait for an agent, then the
// namespace, then the Cluster's finalizer. It does not wait until the namespace is gone, only until its deletion has
// started. After that, nothing new can be created in it.
func leave(in input) outcome {
	out := outcome{stage: left, namespaceName: in.cluster.Status.Namespace}
	if !hasFinalizer(in.cluster) {
		return out // only finalizers of others are left
	}
	going := in.namespace == nil || in.namespace.DeletionTimestamp != nil
	place := !going && isPlace(in.namespace, in.cluster)
	if going || place {
		out.unbind = in.rights
	}
	if out.revoke = in.accounts; len(out.revoke)+len(out.unbind) > 0 {
		out.stage = revoking
		return out
	}
	out.deleteNamespace = place
	if going || place {
		out.drain = waiting(in.deployments)
	}
	if out.deleteNamespace || len(out.drain) > 0 {
		out.stage = draining
		return out
	}
	out.removeFinalizer = true
	return out
}

// waiting returns the BundleDeployments with a finalizer that only an agent would remove.
func waiting(deployments []*fleet.BundleDeployment) (held []*fleet.BundleDeployment) {
	for _, d := range deployments {
		if slices.Contains(d.Finalizers, fleet.FinalizerBundleDeployment) {
			held = append(held, d)
		}
	}
	return held
}

// clusterNamespace returns the namespace to create for a Cluster.
func clusterNamespace(cluster *fleet.Cluster) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   clusters.NamespaceOf(cluster),
		Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{
			fleet.AnnotationCluster:          cluster.Name,
			fleet.AnnotationClusterNamespace: cluster.Namespace,
		},
	}}
}

// wasMadeFor reports whether a namespace was made for the Cluster of this name and nothing else: it carries our
// marks, its annotations name the Cluster, and its name is the one that only this Cluster's namespace can have.
func wasMadeFor(namespace *corev1.Namespace, cluster types.NamespacedName) bool {
	return objects.IsOurs(namespace) && namespace.Annotations[fleet.AnnotationCluster] == cluster.Name &&
		namespace.Annotations[fleet.AnnotationClusterNamespace] == cluster.Namespace &&
		namespace.Name == names.ClusterNamespace(cluster.Namespace, cluster.Name)
}

func hasFinalizer(cluster *fleet.Cluster) bool {
	return slices.Contains(cluster.Finalizers, fleet.FinalizerCluster)
}
