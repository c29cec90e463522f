package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Limits of what a summary and its message hold.
const (
	// MaxListed is how many entries that are not ready a summary lists.
	MaxListed = 10
	// maxDetails is how many resources of each list a message mentions for one entry.
	maxDetails = 4
)

// Kinds of what a summary's entries are named after, for ReadyCondition.
const (
	// KindCluster is for the summary of a Bundle.
	KindCluster = "Cluster"
	// KindBundle is for the summary of a Cluster, a ClusterGroup and everything else.
	KindBundle = "Bundle"
)

// Entry is one deployment, or one that should be there, in a summary.
type Entry struct {
	// Name is the Bundle's name in the summary of a Cluster, and
	// "<workspace>/<name>" of the Cluster in the summary of a Bundle.
	Name string
	// State is the deployment's, or Pending where there is none.
	State fleet.BundleState
	// Message says why it is not ready; may be empty.
	Message string
	// Failed means that an error keeps it from being ready, and not that it takes its time.
	Failed bool
	// Modified and NonReady are the deployment's resources that are not as they should be.
	Modified []fleet.ModifiedStatus
	NonReady []fleet.NonReadyStatus
}

// EntryOf describes a deployment under the name given, measured against the
// deployment ID it has.
func EntryOf(name string, bd *fleet.BundleDeployment) Entry {
	return EntryAgainst(name, bd, bd.Spec.DeploymentID)
}

// StagedEntryOf describes a deployment measured against the newest deployment ID
// that was written down for it.
func StagedEntryOf(name string, bd *fleet.BundleDeployment) Entry {
	return EntryAgainst(name, bd, bd.Spec.StagedDeploymentID)
}

// EntryAgainst describes a deployment measured against a deployment ID: the summary of a
// Bundle takes the newest, which a rollout may not have written down yet.
func EntryAgainst(name string, bd *fleet.BundleDeployment, deploymentID string) Entry {
	return Entry{
		Name:     name,
		State:    Against(bd, deploymentID),
		Message:  messageAgainst(bd, deploymentID),
		Failed:   failedAgainst(bd, deploymentID),
		Modified: bd.Status.ModifiedStatus,
		NonReady: bd.Status.NonReadyStatus,
	}
}

// Summarize counts the entries by state and lists the first ten, by name, that are
// not ready, cut to what a status has room for. The order of the entries does not matter.
func Summarize(entries []Entry) fleet.BundleSummary {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	var out fleet.BundleSummary
	for _, entry := range entries {
		out.DesiredReady++
		if n := counter(&out, entry.State); n != nil {
			*n++
		}
		if entry.State == fleet.Ready || len(out.NonReadyResources) >= MaxListed {
			continue
		}
		out.NonReadyResources = append(out.NonReadyResources, boundListed(fleet.NonReadyResource{
			Name:           entry.Name,
			BundleState:    entry.State,
			Message:        entry.Message,
			ModifiedStatus: entry.Modified,
			NonReadyStatus: entry.NonReady,
		}))
	}
	return out
}

// Counted is a summary of so many entries in each state, which lists none of them.
func Counted(states map[fleet.BundleState]int) fleet.BundleSummary {
	var out fleet.BundleSummary
	for of, count := range states {
		out.DesiredReady += count
		if n := counter(&out, of); n != nil {
			*n += count
		}
	}
	return out
}

// Add sums up two summaries; what they list is joined up to the limit.
func Add(a, b fleet.BundleSummary) fleet.BundleSummary {
	sum := a
	sum.DesiredReady += b.DesiredReady
	sum.Ready += b.Ready
	sum.NotReady += b.NotReady
	sum.Pending += b.Pending
	sum.OutOfSync += b.OutOfSync
	sum.Modified += b.Modified
	sum.WaitApplied += b.WaitApplied
	sum.ErrApplied += b.ErrApplied
	if len(a.NonReadyResources) < MaxListed && len(b.NonReadyResources) > 0 {
		listed := slices.Concat(a.NonReadyResources, BoundSummary(b).NonReadyResources)
		sum.NonReadyResources = listed[:min(MaxListed, len(listed))]
	}
	return sum
}

// counter is nil for a state that is not counted, because nobody knows it.
func counter(s *fleet.BundleSummary, state fleet.BundleState) *int {
	switch state {
	case fleet.Ready:
		return &s.Ready
	case fleet.NotReady:
		return &s.NotReady
	case fleet.Pending:
		return &s.Pending
	case fleet.OutOfSync:
		return &s.OutOfSync
	case fleet.Modified:
		return &s.Modified
	case fleet.WaitApplied:
		return &s.WaitApplied
	case fleet.ErrApplied:
		return &s.ErrApplied
	default:
		return nil
	}
}

// ReadyCondition is the condition a summary gives: True and without a message when
// nothing that is not ready is listed, else False with Message. It has neither a
// reason nor a time.
func ReadyCondition(summary fleet.BundleSummary, kind string) genericcondition.GenericCondition {
	condition := genericcondition.GenericCondition{Type: fleet.ConditionReady, Status: "True"}
	if message := ReadyMessage(summary, kind); message != "" {
		condition.Status, condition.Message = "False", message
	}
	return condition
}

// ReadyMessage describes, for each state that is not Ready, the first entry listed
// with it and up to four resources of each of its lists; all sorted, so that equal
// summaries give equal messages. The kind is KindCluster or KindBundle.
func ReadyMessage(summary fleet.BundleSummary, kind string) string {
	var parts []string
	seen := map[fleet.BundleState]bool{fleet.Ready: true}
	for _, listed := range summary.NonReadyResources {
		if seen[listed.BundleState] {
			continue
		}
		seen[listed.BundleState] = true
		if c := counter(&summary, listed.BundleState); c != nil && *c > 0 {
			parts = append(parts, fragments(listed, *c, kind)...)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

func fragments(listed fleet.NonReadyResource, count int, kind string) []string {
	what := kind + " " + listed.Name
	if listed.Message != "" {
		what += ": " + listed.Message
	}
	parts := []string{fmt.Sprintf("%s(%d) [%s]", listed.BundleState, count, what)}
	for _, m := range listed.ModifiedStatus[:min(maxDetails, len(listed.ModifiedStatus))] {
		parts = append(parts, ModifiedText(m))
	}
	for _, n := range listed.NonReadyStatus[:min(maxDetails, len(listed.NonReadyStatus))] {
		parts = append(parts, NonReadyText(n))
	}
	return parts
}

// WorstState is the worst state a summary lists, for display; empty when it lists
// nothing.
func WorstState(summary fleet.BundleSummary) string {
	var worst fleet.BundleState
	for _, listed := range summary.NonReadyResources {
		if Rank(listed.BundleState) > Rank(worst) {
			worst = listed.BundleState
		}
	}
	return string(worst)
}

// ReadyText is "<ready>/<all>" of a summary, for display.
func ReadyText(summary fleet.BundleSummary) string {
	return fmt.Sprintf("%d/%d", summary.Ready, summary.DesiredReady)
}
