package bundle

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/content"
	"github.com/fleet-hub/fleet/internal/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// targetingError begins every message about where a Bundle cannot go.
const targetingError = "targeting error: "

// plan is what a Bundle is owed.
type plan struct {
	// outcome is for the ledger.
	outcome ledger.Outcome
	// createContent says that the Content has to be written before anything else.
	createContent bool
	// writes are the BundleDeployments that should be there, whether or not they
	// already are as they should be.
	writes []write
	// orphans are those that should not.
	orphans []*fleet.BundleDeployment
}

// write is one BundleDeployment with its Secret.
type write struct {
	targeting.DeploymentOutcome

	// existing is what is there; nil if there is none.
	existing *fleet.BundleDeployment
}

// decide works out the plan. A Bundle that cannot be used leaves everything as it
// is; a cluster that cannot be told what to deploy keeps what it has.
func decide(in input) plan {
	out := plan{outcome: ledger.Outcome{Generation: in.bundle.Generation, ManifestHash: in.manifestHash}}
	if in.failure != nil {
		out.outcome.Failure = targetingError + in.failure.Error()
		return out
	}
	selection, err := targeting.NewSelection(in.bundle)
	if err != nil {
		out.outcome.Failure = targetingError + err.Error()
		return out
	}
	groups := targeting.NewGroups(in.groups)
	staying, leaving := split(in.clusters)
	decided, held := hold(in, selection, staying, groups)
	targets := selection.Targets(content.ID(in.manifestHash), decided, groups)
	out.createContent = len(targets) > 0 && !in.contentThere
	out.writes = writes(in, targets, &out.outcome)
	out.orphans = orphans(in.existing, targets, leaving, held)
	held.tell(&out.outcome)
	return out
}

// split tells the Clusters that are being deleted from the others. Nothing is
// deployed to them any more, and nothing taken away: what runs there stays.
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

// writes makes the BundleDeployments of the targets and notes each target in the outcome.
func writes(in input, targets []targeting.Target, outcome *ledger.Outcome) []write {
	existing := map[string]*fleet.BundleDeployment{}
	for _, bd := range in.existing {
		existing[bd.Namespace] = bd
	}
	verdicts := targeting.Rollout(in.bundle.Spec.RolloutStrategy, steps(in.bundle, targets, existing))
	var out []write
	for i, target := range targets {
		note := ledger.Target{Cluster: keyOf(target.Cluster), Namespace: target.Cluster.Status.Namespace}
		made, failure := deployment(in, target, verdicts[i], existing[note.Namespace])
		if failure != nil {
			note.Failure = targetingError + failure.Error()
		}
		if made != nil {
			out = append(out, *made)
		}
		outcome.Targets = append(outcome.Targets, note)
	}
	return out
}

func steps(bundle *fleet.Bundle, targets []targeting.Target, existing map[string]*fleet.BundleDeployment) []targeting.Step {
	out := make([]targeting.Step, len(targets))
	for i, target := range targets {
		out[i] = targeting.Step{
			DeploymentID: target.DeploymentID,
			Deployment:   existing[target.Cluster.Status.Namespace],
			Paused:       targeting.IsPaused(bundle, target.Cluster),
		}
	}
	return out
}

// deployment makes what is written for one target; nil if nothing can be.
func deployment(in input, target targeting.Target, verdict targeting.Verdict, existing *fleet.BundleDeployment) (*write, error) {
	namespace := target.Cluster.Status.Namespace
	if target.Err != nil || namespace == "" {
		return nil, target.Err // without a namespace: the cluster wakes us when it has one
	}
	if existing != nil && existing.DeletionTimestamp != nil {
		return nil, nil // made anew when it is gone
	}
	made, err := targeting.Deployment(targeting.DeploymentInput{
		Bundle: in.bundle, Target: target, Verdict: verdict, Existing: existing, Values: in.values[namespace],
	})
	if err != nil {
		return nil, err
	}
	return &write{DeploymentOutcome: made, existing: existing}, nil
}

// orphans are the BundleDeployments that belong to no target. Those of a Cluster
// that is being deleted, or that a Schedule or a broken selector keeps as it is, are
// none.
func orphans(existing []*fleet.BundleDeployment, targets []targeting.Target, leaving []*fleet.Cluster, held held) []*fleet.BundleDeployment {
	wanted := map[string]bool{}
	for namespace := range held.deployments {
		wanted[namespace] = true
	}
	for _, target := range targets {
		wanted[target.Cluster.Status.Namespace] = true
	}
	going := map[types.NamespacedName]bool{}
	for _, cluster := range leaving {
		going[keyOf(cluster)] = true
	}
	var out []*fleet.BundleDeployment
	for _, bd := range existing {
		if !wanted[bd.Namespace] && !bd.Spec.OffSchedule && !going[index.ClusterOf(bd)] && bd.DeletionTimestamp == nil {
			out = append(out, bd)
		}
	}
	return out
}
