package bundle

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/rules/content"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// targetingError is the prefix of messages about clusters that a Bundle cannot be deployed to.
const targetingError = "targeting error: "

// rolloutError is the prefix of messages about an invalid rollout strategy.
const rolloutError = "rollout error: "

// aim holds the targets of a Bundle and their options. It is computed once per pass and used by all rounds.
type aim struct {
	// outcome is complete except for what the rollout adds. If it has a failure, the other fields are empty.
	outcome ledger.Outcome
	targets []targeting.Target
	layout  rollout.Layout
	// untouched are the Clusters whose BundleDeployments are never deleted.
	untouched []*fleet.Cluster
	held      held
}

// takeAim finds the targets of a Bundle and divides them for the rollout. If the Bundle is invalid, nothing is
// changed. If the deployment for one cluster cannot be computed, that cluster keeps what it has.
func takeAim(in input) aim {
	out := aim{outcome: ledger.Outcome{
		Generation: in.bundle.Generation, ManifestHash: in.manifestHash, Refused: targeting.RefusedMessage(in.bundle.Namespace, in.reach.Refused),
	}}
	if in.failure != nil {
		return out.failed(fleet.ReasonError, targetingError, in.failure)
	}
	selection, err := targeting.NewSelection(in.bundle)
	if err != nil {
		return out.failed(fleet.ReasonError, targetingError, err)
	}
	groups := targeting.NewGroups(in.groups)
	staying, leaving := split(in.clusters)
	untouched := slices.Concat(leaving, withoutNamespace(staying))
	decided, held := hold(in, selection, staying, groups)
	out.targets, out.untouched, out.held = selection.TargetsKnowing(content.ID(in.manifestHash), decided, groups, in.settled.known), untouched, held
	out.outcome.Unknown, out.outcome.Circle = held.keepUnknown(in, selection, out.targets, groups), in.circle
	in.settled.note(out.targets)
	clusters := make([]*fleet.Cluster, len(out.targets))
	for i, target := range out.targets {
		clusters[i] = target.Cluster
	}
	out.layout, err = rollout.NewLayout(in.bundle, clusters, groups)
	if err == nil {
		out.layout, err = out.layout.Beside(in.bundle, len(held.deployments))
	}
	if err != nil {
		return aim{outcome: out.outcome}.failed(fleet.ReasonRolloutInvalid, rolloutError, err)
	}
	out.outcome.Rollout = out.layout
	out.outcome.Rollout.Of = nil // each target lists its own partitions
	return out
}

func (a aim) failed(reason, about string, err error) aim {
	a.outcome.FailureReason, a.outcome.Failure = reason, about+err.Error()
	return a
}

// steps returns the targets as the rollout sees them, followed by the held deployments. Held deployments count, but do
// not change.
func (a aim) steps(in input) []rollout.Step {
	existing := map[string]*fleet.BundleDeployment{}
	for _, bd := range in.existing {
		existing[bd.Namespace] = bd
	}
	out := make([]rollout.Step, len(a.targets))
	for i, target := range a.targets {
		namespace := target.Cluster.Status.Namespace
		doubt, left := in.left[namespace]
		out[i] = rollout.Step{
			DeploymentID: target.DeploymentID,
			Deployment:   existing[namespace],
			Paused:       targeting.IsPaused(in.bundle, target.Cluster),
			Unreachable:  in.unreachable[keyOf(target.Cluster)],
			// A Cluster without a namespace enqueues the Bundle when it gets one.
			Blocked:    target.Err != nil || namespace == "" || left,
			InDoubt:    in.inDoubt[namespace] || doubt,
			Partitions: a.layout.Of[i],
		}
	}
	for namespace, target := range a.held.deployments {
		out = append(out, rollout.Step{Deployment: existing[namespace], Blocked: true, InDoubt: in.inDoubt[namespace], Unreachable: target.Unreachable})
	}
	return out
}

// plan lists the writes for a Bundle in one round.
type plan struct {
	// outcome is stored in the ledger.
	outcome ledger.Outcome
	// createContent means that the Content must be created before any BundleDeployment.
	createContent bool
	// first are the available BundleDeployments that become unavailable when they are written. They are written before
	// the others, because no limit allows them after others have become unavailable. writes are all other
	// BundleDeployments that should exist. Some of them may be up to date already.
	first, writes []write
	// failed are the clusters for which no deployment can be computed, by namespace.
	failed failures
	// orphans are the BundleDeployments to delete.
	orphans []*fleet.BundleDeployment
}

// write is one BundleDeployment together with its Secret.
type write struct {
	rulesdelivery.Outcome

	// existing is the current BundleDeployment, or nil.
	existing *fleet.BundleDeployment
}

// isDone reports whether nothing has to be written: the BundleDeployment is up to date, and its Secret is too or must
// not be changed.
func (w *write) isDone(in input, verdict rollout.Verdict) bool {
	return in.settled != nil && w.existing != nil && rulesdelivery.Same(w.existing, w.Deployment) && !w.existing.Spec.WaitingForValues &&
		(verdict == rollout.Leave || in.secretHolds(w.existing.UID, w.existing.Spec.ValuesHash))
}

// decide computes the plan for one round.
func decide(in input, a aim, steps []rollout.Step, decision rollout.Decision) plan {
	out := plan{outcome: a.outcome, failed: failures{}}
	if a.outcome.Failure != "" {
		return out
	}
	out.outcome.Targets = make([]ledger.Target, 0, len(a.targets))
	out.createContent = len(a.targets) > 0 && !in.contentThere
	for i, target := range a.targets {
		note := ledger.Target{
			Cluster: keyOf(target.Cluster), Namespace: target.Cluster.Status.Namespace,
			DeploymentID: target.DeploymentID, Partitions: steps[i].Partitions, Unreachable: steps[i].Unreachable,
		}
		var made *write
		var err error
		if !in.settled.is(target, steps[i].Deployment, decision.Verdicts[i]) {
			made, err = deployment(in, target, steps[i], decision.Verdicts[i])
		}
		if err != nil {
			note.Failure = targetingError + err.Error()
			if !steps[i].Blocked {
				out.failed[note.Namespace] = failure{message: note.Failure}
			}
		}
		switch {
		case made == nil:
		case made.isDone(in, decision.Verdicts[i]):
			in.settled.settle(target, made.existing, decision.Verdicts[i])
		case decision.Costly[i]:
			out.first = append(out.first, *made)
		default:
			out.writes = append(out.writes, *made)
		}
		out.outcome.Targets = append(out.outcome.Targets, note)
	}
	out.orphans = orphans(in.existing, a.targets, a.untouched, a.held)
	a.held.tell(&out.outcome)
	return out
}

// split separates the Clusters that are being deleted from the others. Nothing is deployed to a Cluster that is being
// deleted, and nothing is removed from it: what runs there keeps running.
func split(clusters []*fleet.Cluster) (staying, leaving []*fleet.Cluster) {
	for _, cluster := range clusters {
		if cluster.DeletionTimestamp == nil {
			staying = append(staying, cluster)
		} else {
			leaving = append(leaving, cluster)
		}
	}
	return staying, leaving
}

// deployment returns the write for one target. It returns nil if nothing can or may be written.
func deployment(in input, target targeting.Target, step rollout.Step, verdict rollout.Verdict) (*write, error) {
	existing := step.Deployment
	switch {
	case step.Blocked:
		return nil, target.Err
	case existing == nil && verdict == rollout.Leave:
		return nil, nil // waits for its turn in the rollout
	case existing != nil && existing.DeletionTimestamp != nil:
		return nil, nil // recreated after the deletion has finished
	}
	target, err := target.Complete()
	if err != nil {
		return nil, err
	}
	made, err := rulesdelivery.Decide(deploymentInput(in, target, step, verdict))
	if err == nil && !made.KeepSecret {
		err = made.Values.Check()
	}
	if err != nil {
		return nil, err
	}
	return &write{Outcome: made, existing: existing}, nil
}

// withoutNamespace returns the Clusters that have no namespace yet, or that have lost their status. Their
// BundleDeployments are kept, because it is unknown in which namespace they are.
func withoutNamespace(clusters []*fleet.Cluster) (out []*fleet.Cluster) {
	for _, cluster := range clusters {
		if cluster.Status.Namespace == "" {
			out = append(out, cluster)
		}
	}
	return out
}

// orphans returns the BundleDeployments that belong to no target. It leaves out those of untouched Clusters, those
// that a Schedule keeps unchanged, and those held because of an invalid selector.
func orphans(existing []*fleet.BundleDeployment, targets []targeting.Target, untouched []*fleet.Cluster, held held) []*fleet.BundleDeployment {
	wanted := map[string]bool{}
	for namespace := range held.deployments {
		wanted[namespace] = true
	}
	for _, target := range targets {
		wanted[target.Cluster.Status.Namespace] = true
	}
	alone := map[types.NamespacedName]bool{}
	for _, cluster := range untouched {
		alone[keyOf(cluster)] = true
	}
	var out []*fleet.BundleDeployment
	for _, bd := range existing {
		if !wanted[bd.Namespace] && !bd.Spec.OffSchedule && !alone[index.ClusterOf(bd)] && bd.DeletionTimestamp == nil {
			out = append(out, bd)
		}
	}
	return out
}
