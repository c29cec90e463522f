package bundle

import (
	"github.com/fleet-hub/fleet/internal/reconcile"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// writes are the writes of one round, in their order.
type writes struct {
	// outcome is put into the store of outcomes.
	outcome selection.Outcome
	// createContent means that the Content must be created before any BundleDeployment.
	createContent bool
	// first are the disruptive writes (see rollout.Decision), which come before the others. others are all other
	// BundleDeployments that should exist and may have to be written.
	first, others []write
	// failed are the clusters for which no deployment can be computed, by namespace.
	failed failures
	// orphans are the BundleDeployments to delete.
	orphans []*fleet.BundleDeployment
}

// write is one BundleDeployment together with its Secret.
type write struct {
	rulesdelivery.Outcome

	// existing is the current BundleDeployment, or nil. settle records that nothing more can be written.
	existing *fleet.BundleDeployment
	settle   func()
}

// writes computes the writes of the round.
func (r round) writes() writes {
	out := writes{outcome: r.selected.Outcome, failed: failures{}}
	if out.outcome.Failure != "" {
		return out
	}
	targets := make([]selection.Target, 0, len(r.selected.Targets))
	out.createContent = len(r.selected.Targets) > 0 && !r.contentThere
	for i, target := range r.selected.Targets {
		entry := selection.Target{
			Cluster: reconcile.KeyOf(target.Cluster), Namespace: target.Cluster.Status.Namespace,
			DeploymentID: target.DeploymentID, Partitions: r.steps[i].Partitions,
			Unreachable: r.steps[i].Unreachable, Absent: r.steps[i].Absent, Uncertain: r.steps[i].Uncertain, Paused: r.steps[i].Paused,
		}
		made, err := r.write(i, target)
		if err != nil {
			entry.Failure = selection.TargetingError + err.Error()
			if !r.steps[i].Blocked {
				out.failed[entry.Namespace] = failure{message: entry.Failure}
			}
		}
		switch {
		case made == nil:
		case r.decision.Disruptive[i]:
			out.first = append(out.first, *made)
		default:
			out.others = append(out.others, *made)
		}
		targets = append(targets, entry)
	}
	out.outcome.Targets = r.selected.WithBlocked(targets)
	out.orphans = r.selected.Orphans(r.existing)
	return out
}

// write returns the write for one target. It returns nil if nothing can, may or has to be written.
func (r round) write(i int, target targeting.Target) (*write, error) {
	existing, action := r.steps[i].Deployment, r.decision.Actions[i]
	how := decided{action, r.plainInSecrets}
	switch {
	case r.cache.isUpToDate(r.bundle, target, existing, how) && r.secretHolds(existing.UID):
		return nil, nil
	case r.steps[i].Blocked:
		return nil, target.Err
	case hasToWait(existing, action):
		return nil, nil
	}
	target, err := target.Complete()
	if err != nil {
		return nil, err
	}
	made, err := checked(rulesdelivery.Decide(r.deliveryInput(i, target)))
	if err != nil {
		return nil, err
	}
	w := &write{Outcome: made, existing: existing, settle: func() { r.cache.setUpToDate(r.bundle, target, existing, how) }}
	if r.cache != nil && w.isDone() && (action == rollout.NoChange || r.secretHolds(existing.UID)) {
		w.settle()
		return nil, nil
	}
	return w, nil
}

// checked returns an error for values that are too large for a Secret.
func checked(made rulesdelivery.Outcome, err error) (rulesdelivery.Outcome, error) {
	if err == nil && !made.KeepSecret {
		err = made.Values.Check()
	}
	return made, err
}

// hasToWait reports whether a target waits for its turn in the rollout, or for the end of a deletion.
func hasToWait(existing *fleet.BundleDeployment, action rollout.Action) bool {
	if existing == nil {
		return action == rollout.NoChange
	}
	return existing.DeletionTimestamp != nil
}

// isDone reports whether the BundleDeployment is up to date.
func (w *write) isDone() bool {
	return w.existing != nil && rulesdelivery.Same(w.existing, w.Deployment) && !w.existing.Spec.WaitingForValues
}

// deliveryInput returns the input for the BundleDeployment of one target.
func (r round) deliveryInput(i int, target targeting.Target) rulesdelivery.Input {
	existing := r.steps[i].Deployment
	return rulesdelivery.Input{
		Bundle: r.bundle, Target: target, Action: r.decision.Actions[i], Existing: existing,
		Values:      r.values[target.Cluster.Status.Namespace],
		SecretKnown: existing != nil && r.secretHolds != nil && r.secretHolds(existing.UID), PlainInSecrets: r.plainInSecrets,
	}
}
