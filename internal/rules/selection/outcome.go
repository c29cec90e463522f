package selection

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Outcome is the targeting outcome of a Bundle.
type Outcome struct {
	// Generation is the generation of the Bundle that was evaluated.
	Generation int64
	// ManifestHash is the SHA-256 of the Bundle's manifest, in hexadecimal, or empty.
	ManifestHash string
	// Failure, if set, says why the Bundle cannot be deployed anywhere. What it deployed before stays unchanged.
	Failure string
	// FailureReason is the reason of the condition that reports Failure.
	FailureReason string
	// Blocked, if set, says why some clusters stay unchanged: a selector that decides about them is invalid. Their
	// existing BundleDeployments are among the Targets.
	Blocked string
	// Unknown, if set, lists the ClusterGroups that the Bundle names and that do not exist. Absent lists the Clusters that
	// its targets name and that do not exist.
	Unknown, Absent string
	// Refused, if set, lists the workspaces that do not accept the Bundle although it is mapped to them.
	Refused string
	// Circle, if set, says that the Bundle depends on itself.
	Circle string
	// Rollout is the layout of the rollout without Of: see Target.Partitions.
	Rollout rollout.Layout
	// Targets are the clusters of the Bundle, ordered by name.
	Targets []Target
}

// WithFailure returns the outcome of a Bundle that cannot be deployed anywhere.
func (o Outcome) WithFailure(reason, message string) Outcome {
	o.FailureReason, o.Failure = reason, message
	return o
}

// Target is a cluster that a Bundle should be deployed to.
type Target struct {
	// Cluster is the key of the Cluster.
	Cluster types.NamespacedName
	// Namespace is the cluster namespace, or empty if the Cluster has no namespace yet.
	Namespace string
	// Failure, if set, says why the Bundle cannot be deployed to the cluster.
	Failure string
	// Uncertain means that a write may have succeeded, also despite Failure, or may succeed soon. The rollout waits for it.
	Uncertain bool
	// DeploymentID is the newest deployment ID, or empty if it is unknown.
	DeploymentID string
	// Partitions are the rollout partitions of the cluster, in ascending order.
	Partitions []int
	// Unreachable means that the cluster's agent had stopped reporting.
	Unreachable bool
	// Absent means that the cluster's agent had never reported.
	Absent bool
	// Paused means that the Bundle or the Cluster is paused.
	Paused bool
}

// Step returns the target as its rollout sees it. bd is the existing BundleDeployment, or nil.
func (t Target) Step(bd *fleet.BundleDeployment) rollout.Step {
	return rollout.Step{
		DeploymentID: t.DeploymentID, Deployment: bd, Partitions: t.Partitions, Paused: t.Paused,
		Unreachable: t.Unreachable, Absent: t.Absent, Uncertain: t.Uncertain,
		Blocked: t.Failure != "" && !t.Uncertain || t.DeploymentID == "" || t.Namespace == "",
	}
}
