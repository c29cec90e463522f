package rollout

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Action is what the rollout allows for one target now.
type Action int

const (
	// NoChange keeps the staged and the deployed state. It creates nothing.
	NoChange Action = iota
	// Stage writes the newest state as staged. The agent keeps the state that it has.
	Stage
	// Promote lets the agent apply the newest state.
	Promote
)

// Wait is why a target does not get the newest state now. It is empty if the target has or gets that state.
type Wait string

// Reasons to wait.
const (
	// WaitBlocked means that the wanted state is unknown, or that it cannot be written yet.
	WaitBlocked Wait = "blocked"
	// WaitPaused means that the Bundle or the Cluster is paused.
	WaitPaused Wait = "paused"
	// WaitUnreachable means that the agent does not report. It gets the state when it reports again.
	WaitUnreachable Wait = "unreachable"
	// WaitMaxNew means that one round has written as many first deployments as it may.
	WaitMaxNew Wait = "maxNew"
	// WaitLimit means that as many targets are unavailable as allowed, in total or in one of the target's partitions.
	WaitLimit Wait = "maxUnavailable"
	// WaitPartition means that an earlier partition is not finished.
	WaitPartition Wait = "earlier partition"
	// WaitNoPartition means that no partition selects the target.
	WaitNoPartition Wait = "no partition"
)

// IsForOthers reports whether the target waits for the status of other targets.
func (w Wait) IsForOthers() bool { return w == WaitLimit || w == WaitPartition || w == WaitMaxNew }

// Step is one target as the rollout sees it.
type Step struct {
	// DeploymentID is the newest one of the target. It is empty if it is unknown.
	DeploymentID string
	// Deployment is the existing BundleDeployment, or nil.
	Deployment *fleet.BundleDeployment
	// Paused means that changes are not promoted.
	Paused bool
	// Unreachable means that the agent does not report. The target does not affect other targets.
	Unreachable bool
	// Absent means that no agent has ever reported. The target does not affect other targets until an agent has applied
	// something.
	Absent bool
	// Blocked means that nothing can be written for the target. Its existing state still counts.
	Blocked bool
	// Uncertain means that a promotion or a first deployment was sent with an unknown result. It counts as done.
	Uncertain bool
	// Partitions are the indexes of the target's partitions, ascending.
	Partitions []int
}

// Availability describes how one target counts.
type Availability struct {
	// Unavailable means that the agent has not applied its state yet, or that it is not ready. It counts against the
	// limits.
	Unavailable bool
	// Behind means that the target is unavailable or does not have the newest state. Later partitions wait for it.
	Behind bool
	// Unreachable means that the target counts neither as unavailable nor as behind.
	Unreachable bool
}

// Availability returns how the step counts.
func (s Step) Availability() Availability {
	if s.isUnreachable() {
		return Availability{Unreachable: true}
	}
	unavailable := s.isUnavailable()
	return Availability{Unavailable: unavailable, Behind: unavailable || !s.Blocked && !s.isUpToDate(s.staged())}
}

// isUnreachable reports whether nothing that is written for the target has an effect now.
func (s Step) isUnreachable() bool {
	return s.Unreachable || s.Absent && (s.Deployment == nil || s.Deployment.Status.AppliedDeploymentID == "")
}

// isUnavailable reports whether the existing deployment is unavailable or is about to become so. One that was only staged
// cannot become so.
func (s Step) isUnavailable() bool {
	return s.Uncertain || s.isGoing() || !s.isFirst() && !IsAvailable(s.Deployment)
}

// isFirst reports whether the target was never given a deployment.
func (s Step) isFirst() bool { return s.Deployment == nil || s.Deployment.Spec.DeploymentID == "" }

// isGoing reports whether the existing deployment is being deleted. It is created again afterwards.
func (s Step) isGoing() bool { return s.Deployment != nil && s.Deployment.DeletionTimestamp != nil }

func (s Step) staged() string {
	if s.Deployment == nil {
		return ""
	}
	return s.Deployment.Spec.StagedDeploymentID
}

func (s Step) isUpToDate(staged string) bool {
	bd := s.Deployment
	return bd != nil && staged == s.DeploymentID && bd.Spec.DeploymentID == s.DeploymentID && bd.Status.AppliedDeploymentID == s.DeploymentID
}

// IsAvailable reports whether an agent has applied its state and the state is ready.
func IsAvailable(bd *fleet.BundleDeployment) bool {
	return bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID && bd.Status.Ready
}

// Decision is what one round of a rollout does, and why the other targets wait.
type Decision struct {
	// Actions and Waits have the order of the steps.
	Actions []Action
	Waits   []Wait
	// Disruptive marks the steps that are available and become unavailable when they are written. They are written first:
	// they are available now, and writing others before them would use up maxUnavailable.
	Disruptive []bool
	// NewlyCreated is how many BundleDeployments are created or get their first deployment.
	NewlyCreated int
	// Again requests another round after this one is written, because this one has NewlyCreated as many as it may.
	Again bool
}

// Decide returns what is allowed for each step now. Steps have the order of the targets, and are promoted in this
// order.
//
// A target that is unavailable may be promoted at any time: its state can only improve. An available target is
// promoted while fewer than MaxUnavailable targets are unavailable, in total and in each of its partitions. The limits
// hold at every moment while the decision is written, even if a target is in several partitions.
func Decide(layout Layout, steps []Step) Decision {
	r := &rollout{
		layout: layout, steps: steps, unavailableIn: make([]int, len(layout.Partitions)),
		out: Decision{Actions: make([]Action, len(steps)), Waits: make([]Wait, len(steps)), Disruptive: make([]bool, len(steps))},
	}
	members := make([][]int, len(layout.Partitions))
	for i, step := range steps {
		for _, p := range step.Partitions {
			members[p] = append(members[p], i)
		}
		if step.Availability().Unavailable {
			r.count(step)
		}
		r.out.Waits[i] = unreached(step)
	}
	late := 0
	for p, part := range layout.Partitions {
		for _, i := range members[p] {
			r.stage(i)
		}
		for _, i := range members[p] {
			r.promote(i)
		}
		if r.behind(members[p]) > part.MaxUnavailable {
			late++
		}
		if late > layout.MaxUnavailablePartitions {
			r.stageEarly()
			break
		}
	}
	return r.out
}

// unreached returns why a step waits that the rollout does not get to in this round.
func unreached(step Step) Wait {
	switch {
	case step.Blocked || step.isGoing():
		return WaitBlocked
	case len(step.Partitions) == 0:
		return WaitNoPartition
	case !step.Availability().Behind && !step.isUnreachable():
		return ""
	default:
		return WaitPartition
	}
}

// rollout is one round in progress.
type rollout struct {
	layout Layout
	steps  []Step
	out    Decision

	unavailable   int
	unavailableIn []int // by partition
}

// count records that a step is unavailable.
func (r *rollout) count(step Step) {
	r.unavailable++
	for _, p := range step.Partitions {
		r.unavailableIn[p]++
	}
}

// stage stages the newest state, or creates the BundleDeployment if it does not exist.
func (r *rollout) stage(i int) {
	step := r.steps[i]
	switch {
	case step.Blocked || step.isGoing() || r.out.Actions[i] != NoChange:
		return // the last condition: an earlier partition has handled the step
	case !step.isFirst() || step.Paused && step.Deployment != nil:
	case !r.mayCreate():
		r.out.Waits[i] = WaitMaxNew
		return
	case !step.Paused && !step.Uncertain && !step.isUnreachable(): // otherwise it does not count, or counts already
		r.count(step)
	}
	r.out.Actions[i] = Stage
}

// mayCreate reports whether the round may write another first deployment, and counts it.
func (r *rollout) mayCreate() bool {
	if r.out.NewlyCreated >= r.layout.MaxNew {
		r.out.Again = r.layout.MaxNew > 0
		return false
	}
	r.out.NewlyCreated++
	return true
}

// stageEarly stages first deployments in the partitions that the rollout does not get to. An agent that returns to a hub
// that has lost its BundleDeployment would otherwise uninstall the release.
func (r *rollout) stageEarly() {
	for i, step := range r.steps {
		if step.Deployment == nil && r.out.Waits[i] == WaitPartition && r.out.Actions[i] == NoChange && r.mayCreate() {
			r.out.Actions[i] = Stage
		}
	}
}

// promote gives the staged state to the agent, if the limits allow it.
func (r *rollout) promote(i int) {
	if r.out.Actions[i] != Stage {
		return
	}
	step := r.steps[i]
	wait := Wait("")
	switch {
	case step.Paused:
		wait = WaitPaused
		if step.isUpToDate(step.DeploymentID) {
			wait = ""
		}
		r.out.Waits[i] = wait
		return
	case step.isFirst(): // nothing is deployed, so it cannot become unavailable
	case step.Deployment.Spec.DeploymentID == step.DeploymentID: // the agent has it already
	case step.Unreachable:
		wait = WaitUnreachable
	case step.isUnavailable():
	case !r.hasRoom(step):
		wait = WaitLimit
	default:
		r.count(step)
		r.out.Disruptive[i] = true
	}
	r.out.Waits[i] = wait
	if wait == "" {
		r.out.Actions[i] = Promote
	}
}

func (r *rollout) hasRoom(step Step) bool {
	if r.unavailable >= r.layout.MaxUnavailable {
		return false
	}
	for _, p := range step.Partitions {
		if r.unavailableIn[p] >= r.layout.Partitions[p].MaxUnavailable {
			return false
		}
	}
	return true
}

// behind counts the members that later partitions wait for, once the decision is written.
func (r *rollout) behind(members []int) (count int) {
	for _, i := range members {
		step := r.steps[i]
		availability := step.Availability()
		justStaged := r.out.Actions[i] != NoChange && step.isUpToDate(step.DeploymentID)
		if availability.Unavailable || availability.Behind && !justStaged {
			count++
		}
	}
	return count
}
