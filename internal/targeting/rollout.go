package targeting

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// partitionAll names the one partition of a rollout without partitions.
const partitionAll = "All"

// Verdict is what the rollout allows for one target now.
type Verdict int

const (
	// Stage writes the newest state down and leaves the agent with what it has.
	Stage Verdict = iota
	// Promote lets the agent apply the newest state.
	Promote
)

// Step is one target as the rollout sees it.
type Step struct {
	// DeploymentID is the newest of the target.
	DeploymentID string
	// Deployment is what is there; nil if there is none yet.
	Deployment *fleet.BundleDeployment
	// Paused holds changes back.
	Paused bool
}

// Rollout says for each step what is allowed now, in the order of the steps.
// Everything is promoted at once but what is paused: the strategy's limits do not
// hold anything back.
func Rollout(_ *fleet.RolloutStrategy, steps []Step) []Verdict {
	verdicts := make([]Verdict, len(steps))
	for i, step := range steps {
		if !step.Paused {
			verdicts[i] = Promote
		}
	}
	return verdicts
}

// Progress is how far a rollout is, for the status of a Bundle.
type Progress struct {
	Unavailable              int
	MaxUnavailable           int
	UnavailablePartitions    int
	MaxUnavailablePartitions int
	// Partitions lack their summaries; with one partition, it is the Bundle's.
	Partitions []fleet.PartitionStatus
}

// ProgressOf counts the steps that are not available: not applied, or not ready.
// In a partition, what the rollout has not reached counts as well.
func ProgressOf(_ *fleet.RolloutStrategy, steps []Step) Progress {
	if len(steps) == 0 {
		return Progress{}
	}
	out := Progress{MaxUnavailable: len(steps)}
	all := fleet.PartitionStatus{Name: partitionAll, Count: len(steps), MaxUnavailable: len(steps)}
	for _, step := range steps {
		unavailable := step.Deployment != nil && isUnavailable(step.Deployment)
		if unavailable {
			out.Unavailable++
		}
		if unavailable || !isUpToDate(step) {
			all.Unavailable++
		}
	}
	out.Partitions = []fleet.PartitionStatus{all}
	return out
}

func isUnavailable(bd *fleet.BundleDeployment) bool {
	return bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID || !bd.Status.Ready
}

func isUpToDate(step Step) bool {
	bd := step.Deployment
	return bd != nil && bd.Spec.StagedDeploymentID == step.DeploymentID &&
		bd.Spec.DeploymentID == step.DeploymentID && bd.Status.AppliedDeploymentID == step.DeploymentID
}
