package capi

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Stage is what the hub does next about a Cluster of Cluster API.
type Stage string

const (
	// Nothing means that the hub has nothing to do.
	Nothing Stage = "Nothing"
	// Waiting means that the hub does not create a Cluster of Fleet yet, for the reason of the outcome.
	Waiting Stage = "Waiting"
	// Identifying means that the hub reads which cluster the kubeconfig leads to, before it creates anything.
	Identifying Stage = "Identifying"
	// Creating means that the hub creates the Cluster of Fleet.
	Creating Stage = "Creating"
	// Following means that the hub keeps the Cluster of Fleet like the one of Cluster API.
	Following Stage = "Following"
	// Keeping means that the hub leaves the Cluster of Fleet as it is, whatever happens to the one of Cluster API.
	Keeping Stage = "Keeping"
	// Deleting means that the hub deletes the Cluster of Fleet.
	Deleting Stage = "Deleting"
	// ImportedByHand means that a user imported the cluster. The hub records that, and creates nothing.
	ImportedByHand Stage = "ImportedByHand"
)

// Input is what Decide decides from.
type Input struct {
	Now time.Time
	// Key is the namespace and name that the two Clusters share.
	Key types.NamespacedName
	// Cluster is the one of Cluster API, or nil if it is gone. Last is its last known state then, and may be nil.
	Cluster, Last *Cluster
	// Selected reports whether the configuration selects the Cluster.
	Selected bool
	// Secret is the kubeconfig Secret. It is only needed if the control plane is initialized.
	Secret Secret
	// Fleet is the Cluster of Fleet with the same namespace and name, or nil.
	Fleet *fleet.Cluster
	// SameSecret are the Clusters of Fleet that name the kubeconfig Secret. Those of other namespaces do not count: every
	// tenant can name it.
	SameSecret []*fleet.Cluster
	// Identity is that of the cluster to which the kubeconfig leads.
	Identity Identity
	// Recorded is the UID that an import has recorded for Fleet. It is empty if the hub did not create Fleet for Cluster API.
	Recorded types.UID
	// Refusal is the last one of this cluster.
	Refusal Refusal
	// SameCluster are the Clusters of Fleet with this identity. In other namespaces, only what the hub has read counts.
	SameCluster []*fleet.Cluster
	// Unknown are the other Clusters with a kubeconfig in this namespace whose identity nothing has recorded.
	Unknown []*fleet.Cluster
	// GroupTaken means that a user created a ClusterGroup with the name of the one for the ClusterClass.
	GroupTaken bool
}

// Outcome is the decision.
type Outcome struct {
	Stage Stage
	// Reason and Message belong to the condition of the Cluster of Fleet if the hub created it, otherwise to an Event
	// of the Cluster of Cluster API. An empty reason means that there is nothing to report.
	Reason, Message string
	// ByHand is the Cluster of stage ImportedByHand.
	ByHand *fleet.Cluster
	// Again is when to decide again although nothing has changed, or zero.
	Again time.Time
}

// NeedsSecret reports whether the kubeconfig Secret matters for the decision.
func NeedsSecret(in Input) bool {
	return in.Cluster != nil && in.Cluster.Initialized && in.Selected && in.Cluster.DeletionTimestamp == nil && !ByManifest(in)
}

// IsMarked reports whether the hub created a Cluster for Cluster API.
func IsMarked(cluster *fleet.Cluster) bool {
	return cluster != nil && strings.HasPrefix(cluster.Annotations[annotation.CAPICluster], cluster.Namespace+"/"+cluster.Name+"/")
}

// HasProvidersKubeconfig reports whether the provider of the control plane renews the kubeconfig of a Cluster. A Cluster that
// got the mark later may still name another Secret.
func HasProvidersKubeconfig(cluster *fleet.Cluster) bool {
	named := clusters.KubeconfigSecret(cluster)
	return IsMarked(cluster) && named.Namespace == cluster.Namespace && named.Name == SecretName(cluster.Name)
}

// MarkOf returns the annotation of a Cluster that the hub creates. It contains the name, so that a copy of the Cluster
// with another name is not taken for it.
func MarkOf(from *Cluster) string {
	return from.Namespace + "/" + from.Name + "/" + string(from.UID)
}

// Decide returns what the hub does next.
func Decide(in Input) Outcome {
	switch {
	case in.Cluster == nil:
		return decideGone(in)
	case IsOfFormer(in) && in.Selected && !in.Cluster.isOnHold():
		return decideFormer(in)
	case !in.Selected:
		return unfollowed(in, conditions.ReasonNotSelected, "the selectors capi.namespaceSelector and capi.clusterSelector of the fleet chart do not select this cluster: label its namespace or the Cluster of Cluster API, or change the selectors")
	case in.Cluster.isOnHold():
		return unfollowed(in, conditions.ReasonClusterPaused, "the Cluster of Cluster API is paused or is being moved, so nothing is changed or deleted for it: set its spec.paused to false to continue")
	case IsMarked(in.Fleet):
		return decideMarked(in)
	case in.Cluster.DeletionTimestamp != nil:
		return Outcome{Stage: Nothing}
	case in.Fleet != nil && in.Fleet.DeletionTimestamp != nil:
		return Outcome{Stage: Nothing} // its end is an event
	}
	return decideNew(in)
}

// decideGone deletes the Cluster of Fleet, unless the Cluster of Cluster API was paused, moved or not selected before.
func decideGone(in Input) Outcome {
	if !IsMarked(in.Fleet) || in.Fleet.DeletionTimestamp != nil {
		return Outcome{Stage: Nothing}
	}
	last := in.Last
	if last != nil && MarkOf(last) != in.Fleet.Annotations[annotation.CAPICluster] {
		last = nil
	}
	switch {
	case last != nil && last.isOnHold():
		return Outcome{Stage: Keeping, Reason: conditions.ReasonClusterPaused, Message: fmt.Sprintf("the Cluster of Cluster API was deleted while it was paused or moved to another management cluster: to let another hub register the cluster, run here fleet unregister %s -n %s --keep-workloads --keep-agent --cluster-context CONTEXT; or delete this Cluster if the cluster is no longer wanted", in.Key.Name, in.Key.Namespace)}
	case in.Fleet.Annotations[annotation.CAPIKept] == conditions.ReasonNotSelected:
		return Outcome{Stage: Keeping, Reason: conditions.ReasonNotSelected, Message: "the Cluster of Cluster API was deleted while the selectors of the fleet chart did not select it: delete this Cluster if the cluster is no longer wanted"}
	case in.Fleet.Annotations[annotation.CAPIKept] != "":
		return Outcome{Stage: Nothing}
	}
	return Outcome{Stage: Deleting}
}

// unfollowed keeps the Cluster of Fleet as it is, if there is one.
func unfollowed(in Input, reason, message string) Outcome {
	out := Outcome{Stage: Waiting, Reason: reason, Message: message}
	if IsMarked(in.Fleet) && !IsOfFormer(in) {
		out.Stage = Keeping
	}
	return out
}

// isOnHold reports whether a Cluster is paused or being moved.
func (c *Cluster) isOnHold() bool { return c.Paused || c.ForMove }

// decideMarked decides about a Cluster that the hub created.
func decideMarked(in Input) Outcome {
	switch {
	case in.Fleet.DeletionTimestamp != nil:
		return Outcome{Stage: Nothing} // its end is an event
	case in.Fleet.Annotations[annotation.CAPICluster] != MarkOf(in.Cluster):
		return Outcome{Stage: Deleting} // of an earlier cluster with this name
	case in.Cluster.DeletionTimestamp != nil:
		return Outcome{Stage: Deleting}
	case isRefused(in.Fleet) && !ByManifest(in):
		out := Outcome{Stage: Deleting} // the import did not know it, but found it out
		out.Reason, out.Message = trouble(in)
		return out
	}
	return follow(in)
}

// follow keeps the Cluster of Fleet like the one of Cluster API, and reports what a person should know.
func follow(in Input) Outcome {
	out := Outcome{Stage: Following}
	out.Reason, out.Message = trouble(in)
	if at, ends := in.Secret.Validity.warnAt(); ends && in.Now.Before(at) {
		out.Again = at
	}
	if at := in.Now.Add(recheck); out.Reason == conditions.ReasonImportedTwice && (out.Again.IsZero() || at.Before(out.Again)) {
		out.Again = at // the end of the other import does not enqueue this Cluster
	}
	return out
}

// trouble returns what a person should know about a Cluster that the hub created.
func trouble(in Input) (reason, message string) {
	switch other := otherImport(in); {
	case in.Cluster.Join == JoinUnknown:
		return unknownJoin()
	case ByManifest(in) && other != nil:
		return importedTwice(in, other)
	case ByManifest(in):
		return minorTrouble(in)
	}
	return importTrouble(in)
}

// importTrouble is trouble for a cluster that joins with its kubeconfig.
func importTrouble(in Input) (reason, message string) {
	switch reason, message := importReason(in.Fleet); reason {
	case conditions.ReasonTargetIsHub:
		return isTheHub()
	case conditions.ReasonImportedTwice:
		return reason, message
	}
	if !in.Cluster.Initialized {
		return awaitingControlPlane()
	}
	if obstacle := in.Secret.obstacle(in.Cluster); obstacle != "" {
		return conditions.ReasonKubeconfigMissing, obstacle
	}
	if other := otherImport(in); other != nil {
		return importedTwice(in, other)
	}
	if at, ends := in.Secret.Validity.warnAt(); ends && !in.Now.Before(at) {
		return conditions.ReasonKubeconfigExpiring, fmt.Sprintf("the credential in Secret %s/%s expires soon and was not renewed: see why the provider of the control plane does not renew it; the agent continues to work, but cannot be repaired without it", in.Key.Namespace, SecretName(in.Key.Name))
	}
	return minorTrouble(in)
}

// minorTrouble returns what is left out of a Cluster that works.
func minorTrouble(in Input) (reason, message string) {
	if in.GroupTaken {
		id := in.Cluster.Labels[fleet.LabelCAPIClass]
		return conditions.ReasonNameTaken, fmt.Sprintf("ClusterGroup %s/%s was not created for the ClusterClass of this name: delete it, or use the label %s=%s instead of the ClusterGroup", in.Key.Namespace, id, fleet.LabelCAPIClass, id)
	}
	if in.Cluster.VariablesLeftOut {
		return conditions.ReasonVariablesLeftOut, fmt.Sprintf("the variables of the Cluster of Cluster API have more than %d bytes as JSON, of which the first ones by name are in spec.templateValues: remove variables there", maxVariables)
	}
	if in.Cluster.LabelsLeftOut {
		return conditions.ReasonLabelsLeftOut, fmt.Sprintf("the Cluster of Cluster API has more than %d labels, of which the first ones by key are copied: remove labels there, or label this Cluster", maxLabels)
	}
	return "", ""
}

func awaitingControlPlane() (reason, message string) {
	return conditions.ReasonAwaitingControlPlane, "the control plane is not initialized: the cluster is registered when it is"
}

// decideNew decides about a cluster for which the hub has created nothing.
func decideNew(in Input) Outcome {
	out := Outcome{Stage: Waiting}
	switch other := otherImport(in); {
	case in.Cluster.Join == JoinUnknown:
		out.Reason, out.Message = unknownJoin()
		return out
	case !in.Cluster.Initialized && !ByManifest(in):
		out.Reason, out.Message = awaitingControlPlane()
		return out
	case other != nil:
		return decideImported(in, other)
	case ByManifest(in):
		return create(in) // before there is a cluster that could be asked which one it is
	}
	if obstacle := in.Secret.obstacle(in.Cluster); obstacle != "" {
		out.Reason, out.Message = conditions.ReasonKubeconfigMissing, obstacle
		return out
	}
	switch {
	case in.Identity.IsHub:
		out.Reason, out.Message = isTheHub()
		return out
	case !in.Identity.Tried || len(in.Unknown) > 0:
		return Outcome{Stage: Identifying}
	case in.Now.Before(in.Refusal.until()):
		return Outcome{Stage: Waiting, Reason: in.Refusal.Reason, Message: in.Refusal.Message, Again: in.Refusal.until()}
	}
	return create(in)
}

// create creates the Cluster of Fleet, unless a user has created one with its name.
func create(in Input) Outcome {
	if in.Fleet != nil {
		return Outcome{Stage: Waiting, Reason: conditions.ReasonNameTaken, Message: fmt.Sprintf("Cluster %s exists in this namespace but was not created for this cluster: delete it if nothing needs it, or name its kubeconfig Secret %s in its spec.kubeConfigSecret if it is this cluster", in.Key.Name, SecretName(in.Key.Name))}
	}
	return Outcome{Stage: Creating}
}

// tolerations let the agent run on nodes without a network, so that a Bundle can deliver the CNI. The first nodes are
// those of the control plane.
func tolerations() (all []corev1.Toleration) {
	for _, taint := range []string{
		"node-role.kubernetes.io/control-plane", corev1.TaintNodeNotReady, corev1.TaintNodeNetworkUnavailable,
		"node.cloudprovider.kubernetes.io/uninitialized", "node.cluster.x-k8s.io/uninitialized",
	} {
		all = append(all, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return all
}

// NewCluster returns the Cluster of Fleet to create. Its agent runs in the network of its node and before there is a CNI,
// which users can change afterwards. It has no owner reference, because it must stay when the Cluster
// of Cluster API is moved.
func NewCluster(from *Cluster) *fleet.Cluster {
	created := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name},
		Spec: fleet.ClusterSpec{
			KubeConfigSecret: SecretName(from.Name), HostNetwork: new(bool), AgentTolerations: tolerations(),
		},
	}
	*created.Spec.HostNetwork = true
	Follow(created, from)
	return created
}
