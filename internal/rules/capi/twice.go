package capi

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// recheck is when the hub looks again whether a cluster is still another Cluster. That costs no request.
const recheck = time.Minute

// Identity is what the hub has found out about the cluster to which a kubeconfig leads.
type Identity struct {
	// Tried means that the hub has asked the cluster, and At when.
	Tried bool
	At    time.Time
	// UID is that of the namespace kube-system. It is empty if the cluster did not tell it: then the Cluster of Fleet is
	// created, and its import asks again. It reports why that fails, and refuses a cluster that is another Cluster already.
	UID types.UID
	// IsHub means that it is the hub's own cluster.
	IsHub bool
}

// Refusal describes that the import of a Cluster that the hub had created was refused, and the hub deleted the Cluster.
type Refusal struct {
	Reason, Message string
	At              time.Time
	// Times counts the refusals of this cluster.
	Times int
	// Renewed means that the kubeconfig is another one than the refused one.
	Renewed bool
}

// longestRefusal is the longest time between two attempts for a cluster whose import is refused.
const longestRefusal = 10 * time.Minute

// until returns when the hub may create the Cluster again. An API server may answer the import otherwise than the hub's
// question before it, for ever. Another kubeconfig ends the wait, but not before its first step: its writer could
// otherwise make the hub create and delete the Cluster without a pause.
func (r Refusal) until() time.Time {
	if r.Renewed {
		return r.At.Add(recheck)
	}
	return r.At.Add(min(time.Duration(1)<<min(r.Times, 7)/2*recheck, longestRefusal))
}

// otherImport returns another Cluster that is the same cluster, or nil: one in this namespace if there is one. The first
// one by namespace and name counts, so that the message stays the same.
func otherImport(in Input) (first *fleet.Cluster) {
	for _, other := range in.SameSecret {
		if other.Namespace == in.Key.Namespace && !isFollowing(in, other) && comesBefore(in, other, first) {
			first = other
		}
	}
	for _, other := range in.SameCluster {
		if !isFollowing(in, other) && comesBefore(in, other, first) {
			first = other
		}
	}
	return first
}

// isFollowing reports whether a Cluster is the one that follows this Cluster of Cluster API.
func isFollowing(in Input, cluster *fleet.Cluster) bool {
	return IsMarked(cluster) && cluster.Namespace == in.Key.Namespace && cluster.Name == in.Key.Name
}

func comesBefore(in Input, a, b *fleet.Cluster) bool {
	if b == nil {
		return true
	}
	if here := a.Namespace == in.Key.Namespace; here != (b.Namespace == in.Key.Namespace) {
		return here
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}

// decideImported decides about a cluster that is another Cluster already. The hub notes that on a Cluster that a user
// created in the same namespace.
func decideImported(in Input, other *fleet.Cluster) Outcome {
	out := Outcome{Stage: Waiting, Again: in.Now.Add(recheck)} // the end of such an import does not enqueue this Cluster
	if other.Namespace == in.Key.Namespace && !IsMarked(other) {
		out.Stage, out.ByHand = ImportedByHand, other
		if other.Name == in.Key.Name {
			return out
		}
	}
	out.Reason, out.Message = importedTwice(in, other)
	return out
}

func importedTwice(in Input, other *fleet.Cluster) (reason, message string) {
	return conditions.ReasonImportedTwice, ImportedTwiceMessage(in.Key.Namespace, other)
}

// ImportedTwiceMessage explains to the users of a workspace that a cluster is registered as another Cluster. It names
// nothing of another workspace.
func ImportedTwiceMessage(workspace string, other *fleet.Cluster) string {
	if other.Namespace != workspace {
		return "this cluster is registered in another workspace of the hub, and a cluster has one agent: ask the operator of the hub to delete the Cluster there, or exclude this one with a label and capi.clusterSelector of the fleet chart"
	}
	return fmt.Sprintf("this cluster is registered as Cluster %s/%s, and a cluster has one agent: keep that Cluster, or delete it to get one that follows Cluster API", other.Namespace, other.Name)
}

// AgentTakenBy returns the Cluster of Cluster API whose agent a user's new Cluster would replace, or nil. holders are the
// Clusters that are the same cluster. Those of other workspaces do not count: no tenant can prevent an import there.
func AgentTakenBy(cluster *fleet.Cluster, holders []*fleet.Cluster) *fleet.Cluster {
	if hasHadAgent(cluster) {
		return nil
	}
	for _, other := range holders {
		if other.Namespace == cluster.Namespace && IsMarked(other) && other.Spec.AgentNamespace == cluster.Spec.AgentNamespace {
			return other
		}
	}
	return nil
}

// AgentTakenMessage explains why a user's Cluster gets no agent.
func AgentTakenMessage(other *fleet.Cluster) string {
	return fmt.Sprintf("this cluster is registered as Cluster %s/%s, which follows Cluster API, and its agent is in the same namespace: delete this Cluster, or set its spec.agentNamespace to install a second agent", other.Namespace, other.Name)
}

func isTheHub() (reason, message string) {
	return conditions.ReasonIsTheHub, "the kubeconfig points to this hub's own cluster, which is the Cluster local: nothing is installed; to avoid this message, exclude it with capi.clusterSelector of the fleet chart"
}

// importReason returns why the import of a Cluster is not done.
func importReason(cluster *fleet.Cluster) (reason, message string) {
	if imported := conditions.Get(cluster.Status.Conditions, conditions.Imported); imported != nil {
		return imported.Reason, imported.Message
	}
	return "", ""
}

// isRefused reports whether the import found out that it must not install an agent at all. It never is for a Cluster that
// has had an agent: what the agent has deployed stays.
func isRefused(cluster *fleet.Cluster) bool {
	if hasHadAgent(cluster) {
		return false
	}
	reason, _ := importReason(cluster)
	return reason == conditions.ReasonTargetIsHub || reason == conditions.ReasonImportedTwice
}

func hasHadAgent(cluster *fleet.Cluster) bool {
	return cluster.Status.AgentDeployedGeneration != nil || !cluster.Status.Agent.LastSeen.IsZero()
}
