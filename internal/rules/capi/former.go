package capi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// IsOfFormer reports whether the Cluster of Fleet belongs to an earlier Cluster of Cluster API with this name, and was kept
// when that one was paused or moved.
func IsOfFormer(in Input) bool {
	return in.Cluster != nil && IsMarked(in.Fleet) && in.Fleet.DeletionTimestamp == nil &&
		in.Fleet.Annotations[annotation.CAPICluster] != MarkOf(in.Cluster) &&
		in.Fleet.Annotations[annotation.CAPIKept] == conditions.ReasonClusterPaused
}

// decideFormer decides about a Cluster of Fleet that was kept for an earlier Cluster of Cluster API. If the new one was moved
// back, it is the same cluster, which is then followed. Any other cluster must not inherit the Cluster of Fleet, which stays
// until a user releases or deletes it: its agent may still run.
func decideFormer(in Input) Outcome {
	switch {
	case in.Cluster.DeletionTimestamp != nil:
		return Outcome{Stage: Nothing}
	case in.Recorded == "" && !hasHadAgent(in.Fleet) && !IsByManifest(in.Fleet):
		return Outcome{Stage: Deleting} // it has neither an agent nor a manifest
	case in.Recorded == "" || ByManifest(in):
		return ofFormer(in, "and the hub cannot find out whether the new one is the same cluster")
	case !in.Cluster.Initialized:
		reason, message := awaitingControlPlane()
		return Outcome{Stage: Keeping, Reason: reason, Message: message}
	}
	if obstacle := in.Secret.obstacle(in.Cluster); obstacle != "" {
		return Outcome{Stage: Keeping, Reason: conditions.ReasonKubeconfigMissing, Message: obstacle}
	}
	return compareFormer(in)
}

// compareFormer decides by the identity of the new cluster. One that does not answer is asked again after a while.
func compareFormer(in Input) Outcome {
	switch again := in.Identity.At.Add(longestRefusal); {
	case in.Identity.UID == in.Recorded:
		return follow(in)
	case !in.Identity.Tried, in.Identity.UID == "" && !in.Now.Before(again):
		return Outcome{Stage: Identifying}
	case in.Identity.UID == "":
		out := ofFormer(in, "and the new one does not answer, so that the hub cannot find out whether it is the same cluster")
		out.Again = again
		return out
	}
	return ofFormer(in, "and the new one is another cluster")
}

func ofFormer(in Input, and string) Outcome {
	return Outcome{Stage: Keeping, Reason: conditions.ReasonNameTaken, Message: fmt.Sprintf(
		"this Cluster belongs to an earlier Cluster of Cluster API with this name, which was paused or moved before it was deleted, %s: %s; or, if both are the same cluster, run kubectl annotate --overwrite clusters.fleet.cattle.io -n %s %s %s=%s",
		and, releaseFormer(in.Fleet), in.Key.Namespace, in.Key.Name, annotation.CAPICluster, MarkOf(in.Cluster))}
}

// releaseFormer returns how a user ends a Cluster that was kept.
func releaseFormer(cluster *fleet.Cluster) string {
	return fmt.Sprintf("to register the new one, delete this Cluster if the earlier cluster is no longer wanted, or run fleet unregister %s -n %s --keep-workloads --keep-agent --cluster-context CONTEXT to release it", cluster.Name, cluster.Namespace)
}

// KeptForAnother returns why a Cluster that no longer follows Cluster API gets no agent in the cluster to which its
// kubeconfig leads now, or "". The Secret may have become that of a new cluster with the same name. recorded is the UID of the
// Cluster, and found that of the other one.
func KeptForAnother(cluster *fleet.Cluster, recorded, found types.UID) string {
	if !IsMarked(cluster) || cluster.Annotations[annotation.CAPIKept] == "" || recorded == "" || recorded == found {
		return ""
	}
	return "the kubeconfig leads to another cluster than the one for which this Cluster was kept when its Cluster of Cluster API was paused, moved or not selected, so nothing is installed there: " + releaseFormer(cluster)
}
