package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// bundleInput is the input for the status of a Bundle.
type bundleInput struct {
	spec    fleet.BundleSpec
	outcome selection.Outcome
	// deployments are the Bundle's BundleDeployments.
	deployments []*fleet.BundleDeployment
	// trouble returns a problem with a BundleDeployment's copies, or an empty string.
	trouble func(types.NamespacedName) string
	now     time.Time
}

func (h *handler) onBundle(_ context.Context, key types.NamespacedName) error {
	bundle, err := reconcile.Optional(h.app.Bundles.Cache().Get(key.Namespace, key.Name))
	if err != nil || bundle == nil || bundle.DeletionTimestamp != nil {
		return err
	}
	outcome, known := h.outcomes.Get(key)
	if !known {
		return nil // enqueued again when targeting has finished
	}
	in := bundleInput{spec: bundle.Spec, outcome: outcome, trouble: h.outcomes.Trouble, now: h.app.Clock()}
	if in.deployments, err = h.deploymentsOf(bundle, outcome); err != nil {
		return err
	}
	found := addUp(in)
	_, err = hub.Report(h.app, h.app.Bundles, bundle, func(b *fleet.Bundle) { setBundleStatus(&b.Status, in, found) })
	return err
}

// deploymentsOf returns the BundleDeployments of a Bundle. If targeting failed, only those within its reach count.
func (h *handler) deploymentsOf(bundle *fleet.Bundle, outcome selection.Outcome) ([]*fleet.BundleDeployment, error) {
	deployments, err := h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByBundle, reconcile.KeyOf(bundle).String())
	if err != nil || outcome.Failure == "" {
		return deployments, err
	}
	reach, err := index.ReachOf(h.app, bundle)
	return index.Within(reach, deployments), err
}

// figures are the sums that the status of a Bundle shows.
type figures struct {
	summary fleet.BundleSummary
	// progress includes the summaries of the partitions.
	progress rollout.Progress
	// waits are the reasons for which targets do not get the newest state now.
	waits []rollout.Wait
	// closed is the first partition whose limit is 0 while a target waits for it, or nil.
	closed *rollout.Part
	// failed means that an error keeps a cluster from being ready.
	failed bool
}

// addUp returns the figures of all targets.
func addUp(in bundleInput) figures {
	layout, entries, steps := entriesOf(in)
	out := figures{
		summary: state.Summarize(entries), progress: rollout.ProgressOf(layout, steps),
		failed: slices.ContainsFunc(entries, func(e state.Entry) bool { return e.Failed && e.State != fleet.Ready }),
	}
	summarizePartitions(out.progress.Partitions, out.summary, entries, steps)
	if in.outcome.Failure == "" && out.summary.Ready < out.summary.DesiredReady {
		out.waits = rollout.Decide(layout, steps).Waits
		out.closed = closedOf(layout, steps, out.waits)
	}
	return out
}

// closedOf returns the first partition whose limit is 0 while a target waits for it, or nil. A partition that the rollout has not
// reached may be one, because a target can be in several partitions.
func closedOf(layout rollout.Layout, steps []rollout.Step, waits []rollout.Wait) *rollout.Part {
	first := len(layout.Partitions)
	for i, wait := range waits {
		for _, p := range steps[i].Partitions {
			if wait == rollout.WaitLimit && layout.Partitions[p].MaxUnavailable == 0 {
				first = min(first, p)
			}
		}
	}
	if first == len(layout.Partitions) {
		return nil
	}
	return &layout.Partitions[first]
}

// setBundleStatus fills in the status of a Bundle.
func setBundleStatus(status *fleet.BundleStatus, in bundleInput, found figures) {
	summary, progress := found.summary, found.progress
	status.Summary = summary
	// NewlyCreated counts the creations of one pass. Reset it: Rancher Fleet may have left a number.
	status.NewlyCreated = 0
	status.Unavailable, status.MaxUnavailable, status.Unreachable = progress.Unavailable, progress.MaxUnavailable, progress.Unreachable
	status.UnavailablePartitions, status.MaxUnavailablePartitions = progress.UnavailablePartitions, progress.MaxUnavailablePartitions
	status.Partitions = progress.Partitions
	status.Display = fleet.BundleDisplay{ReadyClusters: state.ReadyText(summary), State: state.WorstState(summary)}
	status.ObservedGeneration = in.outcome.Generation
	status.ResourcesSHA256Sum = in.outcome.ManifestHash
	conditions.Set(&status.Conditions, in.now, readyOf(in, found))
	if in.outcome.Failure == "" {
		setProblem(status, in.now, conditions.Partitioned, conditions.ReasonPartitionsIncomplete, in.outcome.Rollout.Problem)
		reason := conditions.ReasonClusterGroupUnknown
		if in.outcome.Unknown == "" {
			reason = conditions.ReasonAwaitingTargetCluster
		}
		setProblem(status, in.now, conditions.TargetsKnown, reason, cmp.Or(in.outcome.Unknown, in.outcome.Absent))
	}
	setProblem(status, in.now, conditions.TargetsAccepted, conditions.ReasonMappingRefused, in.outcome.Refused)
}

// readyOf returns the condition Ready of a Bundle. Its message lists everything that keeps the Bundle from being ready.
func readyOf(in bundleInput, found figures) genericcondition.GenericCondition {
	outcome, circle := in.outcome, ""
	if outcome.Failure != "" {
		return genericcondition.GenericCondition{Type: conditions.Ready, Status: "False", Reason: outcome.FailureReason, Message: outcome.Failure}
	}
	ready := state.ReadyCondition(found.summary, state.KindCluster)
	if ready.Status == "False" && found.failed {
		ready.Reason = conditions.ReasonError // a cluster cannot deploy it; the message says why
	}
	if ready.Status == "False" && outcome.Circle != "" {
		ready.Reason, circle = conditions.ReasonDependsOnCircle, outcome.Circle
	}
	if outcome.Blocked != "" {
		ready.Status, ready.Reason = "False", conditions.ReasonSelectorInvalid
	}
	reasons := []string{outcome.Blocked, circle, heldBack(in.spec, found), ready.Message}
	reasons = slices.DeleteFunc(reasons, func(reason string) bool { return reason == "" })
	ready.Message = cmp.Or(strings.Join(reasons, "; "), untargeted(outcome))
	if in.spec.Paused {
		ready.Message = cmp.Or(ready.Message, "spec.paused is true: this is the state before the pause, and changes on the clusters are not seen")
	}
	return ready
}

// untargeted returns why a Bundle is deployed nowhere, or an empty string. Such a Bundle is ready, as in Rancher Fleet, which has no
// message.
func untargeted(outcome selection.Outcome) string {
	if len(outcome.Targets) > 0 {
		return ""
	}
	return "no Cluster is a target of this Bundle: " +
		cmp.Or(outcome.Unknown, outcome.Absent, outcome.Refused, "compare spec.targets with the labels of the Clusters")
}

// heldBack returns which field of the Bundle keeps its newest state from clusters that wait for it, or an empty string.
func heldBack(spec fleet.BundleSpec, found figures) string {
	summary, strategy := found.summary, cmp.Or(spec.RolloutStrategy, &fleet.RolloutStrategy{})
	switch {
	case spec.Paused && summary.WaitApplied+summary.OutOfSync > 0:
		return "spec.paused is true: the newest state is not deployed until it is false"
	case strategy.MaxNew != nil && *strategy.MaxNew <= 0 && (summary.Pending > 0 || slices.Contains(found.waits, rollout.WaitMaxNew)):
		return fmt.Sprintf("spec.rolloutStrategy.maxNew is %d: no cluster gets its first deployment until it is higher", *strategy.MaxNew)
	case isNone(strategy.MaxUnavailable) && summary.WaitApplied+summary.OutOfSync > 0 && !onlyLaterPartitionsWait(found.waits):
		return fmt.Sprintf("spec.rolloutStrategy.maxUnavailable is %s: available clusters do not get the newest state until it is higher", strategy.MaxUnavailable.String())
	default:
		return held(found)
	}
}

// onlyLaterPartitionsWait reports whether clusters wait for earlier partitions, and none for a limit.
func onlyLaterPartitionsWait(waits []rollout.Wait) bool {
	return slices.Contains(waits, rollout.WaitPartition) && !slices.Contains(waits, rollout.WaitLimit)
}

// held returns which limit of the rollout keeps the newest state from clusters that wait for it, or an empty string.
func held(found figures) string {
	switch {
	case found.closed != nil:
		return fmt.Sprintf("maxUnavailable of partition %q is 0: its available clusters do not get the newest state until it is higher", found.closed.Name)
	case slices.Contains(found.waits, rollout.WaitPartition):
		return laterPartitions(found.progress)
	case slices.Contains(found.waits, rollout.WaitLimit):
		return "available clusters wait while as many clusters are unavailable as maxUnavailable allows, in total or in their partition"
	default:
		return ""
	}
}

// laterPartitions returns which partition the later ones wait for, or an empty string.
func laterPartitions(progress rollout.Progress) string {
	late := 0
	for _, part := range progress.Partitions {
		if part.Unavailable > part.MaxUnavailable {
			late++
		}
		if late > progress.MaxUnavailablePartitions {
			return fmt.Sprintf("later partitions wait while more than %d clusters of partition %q are unavailable", part.MaxUnavailable, part.Name)
		}
	}
	return ""
}

func isNone(limit *intstr.IntOrString) bool {
	return limit != nil && limit.Type == intstr.Int && limit.IntVal <= 0
}

// setProblem sets a condition that a Bundle has once it has had the problem. The condition is True if problem is empty.
func setProblem(status *fleet.BundleStatus, now time.Time, conditionType, reason, problem string) {
	condition := genericcondition.GenericCondition{Type: conditionType, Status: "True"}
	if problem != "" {
		condition.Status, condition.Reason, condition.Message = "False", reason, problem
	}
	if problem != "" || conditions.Get(status.Conditions, conditionType) != nil {
		conditions.Set(&status.Conditions, now, condition)
	}
}

// summarizePartitions computes the summary of each partition. A single partition has the summary of the Bundle, unless
// some clusters belong to no partition.
func summarizePartitions(partitions []fleet.PartitionStatus, all fleet.BundleSummary, entries []state.Entry, steps []rollout.Step) {
	if len(partitions) == 1 && partitions[0].Count == len(steps) {
		partitions[0].Summary = all
		return
	}
	within := make([][]state.Entry, len(partitions))
	for i, step := range steps {
		for _, p := range step.Partitions {
			within[p] = append(within[p], entries[i])
		}
	}
	for p := range partitions {
		partitions[p].Summary = state.Summarize(within[p])
	}
}

// entriesOf returns the entries and steps of all targets. If targeting failed, it uses the existing BundleDeployments.
func entriesOf(in bundleInput) (layout rollout.Layout, entries []state.Entry, steps []rollout.Step) {
	byNamespace := map[string]*fleet.BundleDeployment{}
	for _, bd := range in.deployments {
		byNamespace[bd.Namespace] = bd
	}
	layout, targets := in.outcome.Rollout, in.outcome.Targets
	if in.outcome.Failure != "" {
		layout, targets = rollout.Undivided(len(in.deployments)), nil
		for i, bd := range in.deployments {
			targets = append(targets, selection.Target{
				Cluster: index.ClusterOf(bd), Namespace: bd.Namespace, DeploymentID: bd.Spec.StagedDeploymentID, Partitions: layout.Of[i],
			})
		}
	}
	for _, target := range targets {
		bd := byNamespace[target.Namespace]
		entries = append(entries, entryWith(in, target, bd))
		steps = append(steps, target.Step(bd))
	}
	return layout, entries, steps
}

// entryWith returns the entry of a target, including why it waits, and problems with its copies. in.trouble may be nil.
func entryWith(in bundleInput, target selection.Target, bd *fleet.BundleDeployment) state.Entry {
	entry := entryOf(target, bd)
	if entry.State == fleet.WaitApplied && entry.Message == "" {
		entry.Message = obstacle(in.spec, target)
	}
	if bd != nil && in.trouble != nil && target.Failure == "" {
		entry = withTrouble(entry, in.trouble(reconcile.KeyOf(bd)))
	}
	return entry
}

// obstacle returns what keeps a cluster itself from getting the newest state, or an empty string.
func obstacle(spec fleet.BundleSpec, target selection.Target) string {
	switch {
	case target.Unreachable:
		return "its agent does not report"
	case target.Absent:
		return "no agent has reported yet"
	case target.Paused && !spec.Paused:
		return "spec.paused of the Cluster is true"
	default:
		return ""
	}
}

// withTrouble adds a problem to an entry.
func withTrouble(entry state.Entry, trouble string) state.Entry {
	if trouble != "" {
		entry.State, entry.Message, entry.Failed = fleet.ErrApplied, trouble, true
	}
	return entry
}

func entryOf(target selection.Target, bd *fleet.BundleDeployment) state.Entry {
	name := target.Cluster.String()
	switch {
	case target.Failure != "":
		return state.Entry{Name: name, State: fleet.ErrApplied, Message: target.Failure, Failed: true}
	case bd == nil:
		return state.Entry{Name: name, State: fleet.Pending}
	case target.DeploymentID == "":
		return state.EntryOf(name, bd, bd.Spec.StagedDeploymentID) // held: it is unknown what would be newest
	default:
		return state.EntryOf(name, bd, target.DeploymentID)
	}
}
