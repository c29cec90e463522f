package cluster

import (
	"slices"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// stage says how far a Cluster is.
type stage string

const (
	// managedElsewhere means that another manager owns the Cluster: nothing is done.
	managedElsewhere stage = "ManagedElsewhere"
	// awaitingNamespace means that a namespace of the Cluster's is still on its way out; its end wakes us.
	awaitingNamespace stage = "AwaitingNamespace"
	// namespaceTaken means that the namespace of the Cluster's name was not made for it: nothing is put there.
	namespaceTaken stage = "NamespaceTaken"
	// settled means that the Cluster has its finalizer and its namespace.
	settled stage = "Settled"
	// revoking means that the Cluster goes and its agents' accounts go first, so that what runs downstream stays
	// as it is: an agent without rights sees nothing being deleted.
	revoking stage = "Revoking"
	// draining means that the namespace was told to go and BundleDeployments in it still wait for an agent that
	// will not come: their finalizers are taken off.
	draining stage = "Draining"
	// left means that nothing of the Cluster holds it any more.
	left stage = "Left"
)

// input is what was found about a Cluster. A nil object was not found.
type input struct {
	now     time.Time
	cluster *fleet.Cluster
	// namespace is the one of the Cluster's computed name.
	namespace *corev1.Namespace
	// accounts are those of agents in that namespace, deployments its BundleDeployments.
	accounts    []*corev1.ServiceAccount
	deployments []*fleet.BundleDeployment
}

// outcome is what a Cluster is owed now.
type outcome struct {
	stage stage
	// addFinalizer comes first, removeFinalizer last.
	addFinalizer, removeFinalizer bool
	// tidySpec takes back a scheduling customisation that asks for nothing.
	tidySpec        bool
	createNamespace *corev1.Namespace
	deleteNamespace bool
	revoke          []*corev1.ServiceAccount
	drain           []*fleet.BundleDeployment
	// namespaceName and processed are the Cluster's status; processed is nil when nothing is to be said.
	namespaceName string
	processed     *genericcondition.GenericCondition
}

// decide says what a Cluster is owed now.
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
		processed:     &genericcondition.GenericCondition{Type: fleet.ConditionProcessed, Status: corev1.ConditionTrue},
	}
	switch {
	case in.namespace == nil:
		out.createNamespace = clusterNamespace(in.cluster)
	case in.namespace.DeletionTimestamp != nil:
		out.stage = awaitingNamespace
		out.namespaceName = in.cluster.Status.Namespace // not before it can be used
		out.processed = &genericcondition.GenericCondition{
			Type: fleet.ConditionProcessed, Status: corev1.ConditionFalse, Reason: fleet.ReasonAwaitingNamespace,
			Message: "the cluster's namespace is being deleted; it is made anew once it is gone",
		}
	case !isPlace(in.namespace, in.cluster):
		out.stage, out.namespaceName = namespaceTaken, ""
		out.processed = &genericcondition.GenericCondition{
			Type: fleet.ConditionProcessed, Status: corev1.ConditionFalse, Reason: fleet.ReasonNamespaceTaken,
			Message: takenMessage(in.namespace, in.cluster),
		}
	}
	return out
}

// isPlace reports whether a namespace of a Cluster's name may hold its BundleDeployments and its agent's account: it was
// made for this Cluster. One that lost its marks is used only by a Cluster that has used it before.
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
		return "namespace " + namespace.Name + " was made for another Cluster: register this one under another, shorter name"
	}
	return "namespace " + namespace.Name + " exists and was not made for this Cluster: delete it, or let the Cluster use it with " +
		"`kubectl annotate namespace " + namespace.Name + " " + fleet.AnnotationClusterNamespace + "=" + cluster.Namespace + " " +
		fleet.AnnotationCluster + "=" + cluster.Name + "`"
}

// isNew says whether nothing was made for a Cluster yet that is to get something.
func isNew(cluster *fleet.Cluster) bool {
	return cluster.DeletionTimestamp == nil && cluster.Labels[fleet.LabelClusterManagement] == "" &&
		cluster.Status.Namespace == "" && !hasFinalizer(cluster)
}

// meansNothing says whether a scheduling customisation is there and empty. Nobody is to take it for a setting.
func meansNothing(custom *fleet.AgentSchedulingCustomization) bool {
	return custom != nil && custom.PriorityClass == nil && custom.PodDisruptionBudget == nil
}

// notImported are the conditions that a Cluster begins with whose agent comes by itself: there is nothing to import,
// so that the import would say no more, only in a write of its own.
func notImported(cluster *fleet.Cluster) (begin []genericcondition.GenericCondition) {
	if cluster.Spec.KubeConfigSecret != "" || cluster.Spec.ClientID == "" || cluster.DeletionTimestamp != nil || cluster.Labels[fleet.LabelClusterManagement] != "" {
		return nil
	}
	for _, condition := range []string{fleet.ConditionImported, fleet.ConditionReconciled} {
		if fleet.GetCondition(cluster.Status.Conditions, condition) == nil {
			begin = append(begin, genericcondition.GenericCondition{Type: condition, Status: corev1.ConditionTrue})
		}
	}
	return begin
}

// leave takes a Cluster apart: rights, then what waits for an agent, then the namespace, then the Cluster itself.
// It does not wait for the namespace's end, only for its beginning, after which nothing new can appear in it.
func leave(in input) outcome {
	out := outcome{stage: left, namespaceName: in.cluster.Status.Namespace}
	if !hasFinalizer(in.cluster) {
		return out // somebody else's finalizer holds it
	}
	if len(in.accounts) > 0 {
		out.stage, out.revoke = revoking, in.accounts
		return out
	}
	going := in.namespace == nil || in.namespace.DeletionTimestamp != nil
	out.deleteNamespace = !going && isPlace(in.namespace, in.cluster)
	if going || out.deleteNamespace {
		out.drain = waiting(in.deployments)
	}
	if out.deleteNamespace || len(out.drain) > 0 {
		out.stage = draining
		return out
	}
	out.removeFinalizer = true
	return out
}

// waiting are the BundleDeployments that only an agent could let go.
func waiting(deployments []*fleet.BundleDeployment) (held []*fleet.BundleDeployment) {
	for _, d := range deployments {
		if slices.Contains(d.Finalizers, fleet.FinalizerBundleDeployment) {
			held = append(held, d)
		}
	}
	return held
}

// clusterNamespace is the namespace a Cluster gets.
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

// wasMadeFor says whether a namespace was made for the Cluster of this name and for nothing else: it says so itself,
// is ours to clean up, and has the one name that only this Cluster's can have.
func wasMadeFor(namespace *corev1.Namespace, cluster types.NamespacedName) bool {
	return namespace.Labels[fleet.LabelManaged] == "true" && namespace.Labels[fleet.LabelClusterManagement] == "" &&
		namespace.Annotations[fleet.AnnotationCluster] == cluster.Name &&
		namespace.Annotations[fleet.AnnotationClusterNamespace] == cluster.Namespace &&
		namespace.Name == names.ClusterNamespace(cluster.Namespace, cluster.Name)
}

func hasFinalizer(cluster *fleet.Cluster) bool {
	return slices.Contains(cluster.Finalizers, fleet.FinalizerCluster)
}
