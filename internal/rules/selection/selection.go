package selection

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// TargetingError is the prefix of messages about clusters that a Bundle cannot be deployed to.
const TargetingError = "targeting error: "

// rolloutError is the prefix of messages about an invalid rollout strategy.
const rolloutError = "rollout error: "

// Input is all that decides where a Bundle is deployed.
type Input struct {
	// Bundle includes the values from its Secret, if it has one.
	Bundle *fleet.Bundle
	// ManifestHash is the hash of the Bundle's own resources.
	ManifestHash string
	// Failure is the reason why the Bundle cannot be used at all.
	Failure error
	// Circle is a message about a Bundle that depends on itself, or empty.
	Circle string
	// Reach are the workspaces of the clusters. Clusters and Groups are the Clusters and ClusterGroups in them.
	Reach    targeting.Reach
	Clusters []*fleet.Cluster
	Groups   targeting.Groups
	// Unreachable are the clusters whose agents do not report.
	Unreachable map[types.NamespacedName]bool
	// Absent are the clusters whose agents have never reported.
	Absent map[types.NamespacedName]bool
	// Existing are the Bundle's BundleDeployments.
	Existing []*fleet.BundleDeployment
	// Known returns deployment IDs that were computed earlier.
	Known targeting.Known
}

// Selection holds the targets of a Bundle.
type Selection struct {
	bundle      *fleet.Bundle
	unreachable map[types.NamespacedName]bool
	absent      map[types.NamespacedName]bool
	// Outcome is complete except for what the rollout adds. If it has a failure, the other fields are empty.
	Outcome Outcome
	Targets []targeting.Target
	Layout  rollout.Layout
	// clusters are the Clusters in the workspaces of the Bundle, also those that are not targets.
	clusters []*fleet.Cluster
	// blocked are the BundleDeployments that stay unchanged because it is unknown whether their clusters are targets,
	// by namespace.
	blocked map[string]Target
}

// Decide finds the targets of a Bundle and divides them for the rollout. If the Bundle is invalid, nothing is changed.
// If the deployment for one cluster cannot be computed, that cluster keeps what it has.
func Decide(in Input) Selection {
	out := Selection{bundle: in.Bundle, clusters: in.Clusters, unreachable: in.Unreachable, absent: in.Absent, blocked: map[string]Target{}}
	out.Outcome = Outcome{
		Generation: in.Bundle.Generation, ManifestHash: in.ManifestHash,
		Refused: targeting.RefusedMessage(in.Bundle.Namespace, in.Reach.Refused),
	}
	if in.Failure != nil {
		return failed(out.Outcome, conditions.ReasonError, TargetingError, in.Failure)
	}
	selectors, err := targeting.NewSelection(in.Bundle)
	if err != nil {
		return failed(out.Outcome, conditions.ReasonError, TargetingError, err)
	}
	staying := slices.DeleteFunc(slices.Clone(in.Clusters), isLeaving)
	decided := out.blockUndecided(in, selectors, staying)
	out.Targets = selectors.Targets(content.ID(in.ManifestHash), decided, in.Groups, in.Known)
	out.Outcome.Unknown, out.Outcome.Circle = out.blockUnknown(in, selectors), in.Circle
	out.Outcome.Absent = absentClusters(in, selectors)
	clusters := make([]*fleet.Cluster, len(out.Targets))
	for i, target := range out.Targets {
		clusters[i] = target.Cluster
	}
	out.Layout, err = rollout.NewLayout(in.Bundle, clusters, in.Groups)
	if err == nil {
		out.Layout, err = out.Layout.Beside(in.Bundle, len(out.blocked))
	}
	if err != nil {
		out.Outcome.Blocked = ""
		return failed(out.Outcome, conditions.ReasonRolloutInvalid, rolloutError, err)
	}
	out.Outcome.Rollout = out.Layout
	out.Outcome.Rollout.Of = nil // each target lists its own partitions
	return out
}

func failed(outcome Outcome, reason, prefix string, err error) Selection {
	return Selection{Outcome: outcome.WithFailure(reason, prefix+err.Error())}
}

// isUntouched reports whether no BundleDeployment of a Cluster is deleted now. What runs on a Cluster that is being deleted
// keeps running. A Cluster without a namespace is new, or has lost its status, so that it is unknown where its
// BundleDeployments are. Those of a Cluster that a Schedule keeps unchanged may not show it: only those of targets are
// written when a Schedule begins or ends.
func isUntouched(cluster *fleet.Cluster) bool {
	return isLeaving(cluster) || cluster.Status.Namespace == "" || targeting.IsOffSchedule(cluster)
}

// isLeaving reports whether a Cluster is being deleted. Nothing is deployed to it.
func isLeaving(cluster *fleet.Cluster) bool { return cluster.DeletionTimestamp != nil }

// Written describes the writes of the current pass. The keys are namespaces.
type Written struct {
	// Uncertain are the namespaces in which a promotion may have been applied.
	Uncertain map[string]bool
	// Failed are the namespaces in which a write of this pass failed. The value is true if it is unknown whether the
	// write was applied.
	Failed map[string]bool
}

// Steps returns the targets as the rollout sees them, followed by the blocked deployments. Blocked deployments count,
// but do not change. existing are the Bundle's current BundleDeployments.
func (s Selection) Steps(existing []*fleet.BundleDeployment, written Written) []rollout.Step {
	byNamespace := map[string]*fleet.BundleDeployment{}
	for _, bd := range existing {
		byNamespace[bd.Namespace] = bd
	}
	out := make([]rollout.Step, len(s.Targets))
	for i, target := range s.Targets {
		namespace := target.Cluster.Status.Namespace
		doubt, failed := written.Failed[namespace]
		out[i] = rollout.Step{
			DeploymentID: target.DeploymentID,
			Deployment:   byNamespace[namespace],
			Paused:       targeting.IsPaused(s.bundle, target.Cluster),
			Unreachable:  s.unreachable[keyOf(target.Cluster)],
			Absent:       s.absent[keyOf(target.Cluster)],
			// A Cluster without a namespace enqueues the Bundle when it gets one.
			Blocked:    target.Err != nil || namespace == "" || failed,
			Uncertain:  written.Uncertain[namespace] || doubt,
			Partitions: s.Layout.Of[i],
		}
	}
	for namespace, target := range s.blocked {
		out = append(out, rollout.Step{
			Deployment: byNamespace[namespace], Blocked: true, Uncertain: written.Uncertain[namespace],
			Unreachable: target.Unreachable, Absent: target.Absent,
		})
	}
	return out
}

// Orphans returns the BundleDeployments that belong to no target. It leaves out those of untouched Clusters, those that
// are blocked, and those that a pause of the Bundle or of the Cluster keeps. A pause keeps nothing outside the namespace
// of an existing Cluster, in a workspace that the Bundle no longer reaches, or of an agent's own Bundle: without it, the agent
// stays as it is.
func (s Selection) Orphans(existing []*fleet.BundleDeployment) (orphans []*fleet.BundleDeployment) {
	wanted := map[string]bool{}
	for namespace := range s.blocked {
		wanted[namespace] = true
	}
	for _, target := range s.Targets {
		wanted[target.Cluster.Status.Namespace] = true
	}
	untouched := map[types.NamespacedName]bool{}
	for _, cluster := range s.clusters {
		if targeting.IsPaused(s.bundle, cluster) && s.bundle.Annotations[fleet.AnnotationSetID] != names.AgentBundleSet {
			wanted[cluster.Status.Namespace] = true
		}
		if isUntouched(cluster) {
			untouched[keyOf(cluster)] = true
		}
	}
	for _, bd := range existing {
		if !wanted[bd.Namespace] && !untouched[clusterOf(bd)] && bd.DeletionTimestamp == nil {
			orphans = append(orphans, bd)
		}
	}
	return orphans
}

// clusterOf returns the Cluster that the labels of a BundleDeployment name.
func clusterOf(bd *fleet.BundleDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: bd.Labels[fleet.LabelClusterNamespace], Name: bd.Labels[fleet.LabelCluster]}
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
