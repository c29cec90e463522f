package rollout

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Verdict is what the rollout allows for one target now.
type Verdict int

const (
	// Leave keeps the states that are there, both the newest and the agent's; where there is nothing, nothing is made.
	Leave Verdict = iota
	// Stage writes the newest state down and leaves the agent with what it has.
	Stage
	// Promote lets the agent apply the newest state.
	Promote
)

// Wait is why a target does not get the newest state now; empty if it has it, or gets it.
type Wait string

// Why targets wait.
const (
	// WaitBlocked: nobody can say what to deploy there, or there is no place for it yet.
	WaitBlocked Wait = "blocked"
	// WaitPaused: the Bundle or the Cluster is paused.
	WaitPaused Wait = "paused"
	// WaitUnreachable: its agent is silent. It gets the state when it is heard of.
	WaitUnreachable Wait = "unreachable"
	// WaitMaxNew: one pass has created as many as it may.
	WaitMaxNew Wait = "maxNew"
	// WaitLimit: as many targets are unavailable as may be, in all or in one of its partitions.
	WaitLimit Wait = "maxUnavailable"
	// WaitPartition: an earlier partition is not through.
	WaitPartition Wait = "earlier partition"
	// WaitNoPartition: no partition picks it.
	WaitNoPartition Wait = "no partition"
)

// Step is one target as the rollout sees it.
type Step struct {
	// DeploymentID is the newest of the target; empty if it is not known.
	DeploymentID string
	// Deployment is what is there; nil if there is none yet.
	Deployment *fleet.BundleDeployment
	// Paused holds changes back.
	Paused bool
	// Unreachable means that the agent is silent: what happens there concerns nobody else.
	Unreachable bool
	// Blocked means that nothing can be written there. What is there counts.
	Blocked bool
	// InDoubt means that a promotion or a first deployment was sent and nobody knows what became of it: it counts as one.
	InDoubt bool
	// Partitions are those it is in, ascending.
	Partitions []int
}

// Standing is how one target counts.
type Standing struct {
	// Unavailable: the agent has yet to apply what it was told, or it is not ready. It uses up a part of the limits.
	Unavailable bool
	// Behind: unavailable, or not at the newest state. It keeps later partitions waiting.
	Behind bool
	// Unreachable: it counts as neither of both.
	Unreachable bool
}

// Standing says how the step counts.
func (s Step) Standing() Standing {
	if s.Unreachable {
		return Standing{Unreachable: true}
	}
	unavailable := s.isUnavailable()
	return Standing{Unavailable: unavailable, Behind: unavailable || !s.Blocked && !s.isUpToDate(s.staged())}
}

// isUnavailable says whether what is there is not available, or ceases to be.
func (s Step) isUnavailable() bool {
	return s.InDoubt || s.Deployment != nil && (s.isGoing() || !IsAvailable(s.Deployment))
}

// isGoing says whether what is there is being deleted; it is made anew when it is gone.
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

// IsAvailable says whether an agent has applied what it was told, and it is ready.
func IsAvailable(bd *fleet.BundleDeployment) bool {
	return bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID && bd.Status.Ready
}

// Decision is what one pass of a rollout does, and why the rest waits.
type Decision struct {
	// Verdicts and Waits are in the order of the steps.
	Verdicts []Verdict
	Waits    []Wait
	// Costly are the steps that are available and will not be for a while: they are written before anything else that
	// becomes unavailable, so that no limit is reached too early, in whatever order the others are written.
	Costly []bool
	// NewlyCreated is how many BundleDeployments are created.
	NewlyCreated int
	// Again asks for another pass as soon as this one is written: it has created as many as it may.
	Again bool
}

// Decide says for each step what is allowed now. Steps are in the order of the targets, and that is the order in which
// they are promoted.
//
// A target that is not available may be promoted at any time: it can only get better. One that is available is
// promoted while less than MaxUnavailable targets are unavailable in all, and in each of its partitions. The limits
// hold at every moment while what was decided is written, also where a target is in several partitions.
func Decide(layout Layout, steps []Step) Decision {
	r := &rollout{
		layout: layout, steps: steps, unavailableIn: make([]int, len(layout.Partitions)),
		out: Decision{Verdicts: make([]Verdict, len(steps)), Waits: make([]Wait, len(steps)), Costly: make([]bool, len(steps))},
	}
	members := make([][]int, len(layout.Partitions))
	for i, step := range steps {
		for _, p := range step.Partitions {
			members[p] = append(members[p], i)
		}
		if step.Standing().Unavailable {
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
			break
		}
	}
	return r.out
}

// unreached is why a step waits that the rollout does not come to.
func unreached(step Step) Wait {
	switch {
	case step.Blocked || step.isGoing():
		return WaitBlocked
	case len(step.Partitions) == 0:
		return WaitNoPartition
	case !step.Standing().Behind && !step.Unreachable:
		return ""
	default:
		return WaitPartition
	}
}

// rollout is a pass under way.
type rollout struct {
	layout Layout
	steps  []Step
	out    Decision

	unavailable   int
	unavailableIn []int // by partition
}

// count notes that a step is unavailable.
func (r *rollout) count(step Step) {
	r.unavailable++
	for _, p := range step.Partitions {
		r.unavailableIn[p]++
	}
}

// stage writes the newest state down, and makes a BundleDeployment where there is none.
func (r *rollout) stage(i int) {
	step := r.steps[i]
	switch {
	case step.Blocked || step.isGoing() || r.out.Verdicts[i] != Leave:
		return // the last: an earlier partition has it, too
	case step.Deployment != nil:
	case r.out.NewlyCreated >= r.layout.MaxNew:
		r.out.Waits[i] = WaitMaxNew
		r.out.Again = r.layout.MaxNew > 0
		return
	default:
		r.out.NewlyCreated++
		if !step.Unreachable {
			r.count(step)
		}
	}
	r.out.Verdicts[i] = Stage
}

// promote lets an agent have what is staged, if it may.
func (r *rollout) promote(i int) {
	if r.out.Verdicts[i] != Stage {
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
	case step.Deployment == nil: // nothing is there that could become unavailable
	case step.Deployment.Spec.DeploymentID == step.DeploymentID: // the agent has it already
	case step.Unreachable:
		wait = WaitUnreachable
	case step.isUnavailable():
	case !r.hasRoom(step):
		wait = WaitLimit
	default:
		r.count(step)
		r.out.Costly[i] = true
	}
	r.out.Waits[i] = wait
	if wait == "" {
		r.out.Verdicts[i] = Promote
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

// behind counts what keeps later partitions waiting, once what was decided is written.
func (r *rollout) behind(members []int) (count int) {
	for _, i := range members {
		step := r.steps[i]
		standing := step.Standing()
		justStaged := r.out.Verdicts[i] != Leave && step.isUpToDate(step.DeploymentID)
		if standing.Unavailable || standing.Behind && !justStaged {
			count++
		}
	}
	return count
}
