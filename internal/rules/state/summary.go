package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Limits of a summary and its message.
const (
	// MaxListed is the number of entries that are not ready which a summary lists.
	MaxListed = 10
	// maxDetails limits how many resources of each list a message mentions for one entry.
	maxDetails = 4
)

// Kinds that the entries of a summary are named after, for ReadyCondition.
const (
	// KindCluster is for the summary of a Bundle.
	KindCluster = "Cluster"
	// KindBundle is for the summary of a Cluster, a ClusterGroup and everything else.
	KindBundle = "Bundle"
)

// Entry is an existing or missing deployment in a summary.
type Entry struct {
	// Name is the Bundle's name in the summary of a Cluster, and "<workspace>/<name>" of the Cluster in the summary of
	// a Bundle.
	Name string
	// State is the state of the deployment, or Pending if it does not exist.
	State fleet.BundleState
	// Message says why it is not ready; it may be empty.
	Message string
	// Failed means that an error keeps the deployment from being ready. It is false if the deployment only needs more
	// time.
	Failed bool
	// Modified and NonReady are the deployment's modified resources and those that are not ready.
	Modified []fleet.ModifiedStatus
	NonReady []fleet.NonReadyStatus
}

// EntryOf returns the entry of a deployment compared with a deployment ID. The summary of a Bundle uses the
// newest ID, which the rollout may not have written yet.
func EntryOf(name string, bd *fleet.BundleDeployment, deploymentID string) Entry {
	return Entry{
		Name:     name,
		State:    Against(bd, deploymentID),
		Message:  messageAgainst(bd, deploymentID),
		Failed:   failedAgainst(bd, deploymentID),
		Modified: bd.Status.ModifiedStatus,
		NonReady: bd.Status.NonReadyStatus,
	}
}

// Summarize counts the entries by state. It lists the entries that are not ready by name, cut to the size limits of a
// status. If more than ten are not ready, it lists ten of them; see shorten. The order of the entries does not matter.
func Summarize(entries []Entry) fleet.BundleSummary {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	var out fleet.BundleSummary
	var notReady []Entry
	for _, entry := range entries {
		out.DesiredReady++
		if n := counter(&out, entry.State); n != nil {
			*n++
		}
		if entry.State != fleet.Ready {
			notReady = append(notReady, entry)
		}
	}
	byUrgency := func(a, b Entry) int { return cmp.Compare(rank(a.State, a.Failed), rank(b.State, b.Failed)) }
	for _, entry := range shorten(notReady, func(e Entry) fleet.BundleState { return e.State }, byUrgency) {
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

// shorten returns at most ten entries. If there are more, they are in the order of rank, and the first one of each state is among
// them: many entries in one state must not hide an error or another state.
func shorten[T any](all []T, state func(T) fleet.BundleState, byUrgency func(a, b T) int) []T {
	if len(all) <= MaxListed {
		return all
	}
	slices.SortStableFunc(all, byUrgency)
	states := map[fleet.BundleState]bool{}
	for _, one := range all {
		states[state(one)] = true
	}
	room := MaxListed - len(states)
	var listed []T
	for _, one := range all {
		if states[state(one)] {
			states[state(one)] = false // the next one is not the first
		} else if room--; room < 0 {
			continue
		}
		listed = append(listed, one)
	}
	return listed[:min(MaxListed, len(listed))]
}

// Add sums up two summaries. Their lists are joined up to the limit; see shorten.
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
	if others := BoundSummary(b).NonReadyResources; len(others) > 0 && !fills(a.NonReadyResources, others) {
		sum.NonReadyResources = shorten(slices.Concat(a.NonReadyResources, others), func(r fleet.NonReadyResource) fleet.BundleState { return r.BundleState }, ByUrgency)
	}
	return sum
}

// fills reports whether a list has no room for any of the others: shorten would return the list as it is.
func fills(list, others []fleet.NonReadyResource) bool {
	if len(list) != MaxListed || !slices.IsSortedFunc(list, ByUrgency) {
		return false
	}
	return !slices.ContainsFunc(others, func(other fleet.NonReadyResource) bool {
		hasItsState := func(r fleet.NonReadyResource) bool { return r.BundleState == other.BundleState }
		return ByUrgency(other, list[MaxListed-1]) < 0 || !slices.ContainsFunc(list, hasItsState)
	})
}

// ByUrgency compares listed entries in the order of rank. An entry does not contain whether it failed. In state NotReady,
// only failures and warnings have a message.
func ByUrgency(a, b fleet.NonReadyResource) int {
	hasFailed := func(r fleet.NonReadyResource) bool { return r.BundleState == fleet.NotReady && r.Message != "" }
	return cmp.Compare(rank(a.BundleState, hasFailed(a)), rank(b.BundleState, hasFailed(b)))
}

// rank is lower for an entry that is listed before others: first those in state ErrApplied, then other failures, then entries with
// resources that are not ready, then those that wait. A permanent failure has the state NotReady.
func rank(s fleet.BundleState, failed bool) int {
	switch {
	case s == fleet.ErrApplied:
		return 0
	case failed:
		return 1
	case s == fleet.NotReady:
		return 2
	default:
		return 3
	}
}

// counter returns the counter of a state, or nil for an unknown state.
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

// ReadyCondition returns the Ready condition of a summary. It is True without a message if the summary lists nothing.
// Otherwise it is False with ReadyMessage. It has neither a reason nor a time.
func ReadyCondition(summary fleet.BundleSummary, kind string) genericcondition.GenericCondition {
	condition := genericcondition.GenericCondition{Type: conditions.Ready, Status: "True"}
	if message := ReadyMessage(summary, kind); message != "" {
		condition.Status, condition.Message = "False", message
	}
	return condition
}

// ReadyMessage describes, for each state other than Ready, the first listed entry that has a message, or else the first
// one, and up to four resources of each of its lists. The parts are sorted, so that equal summaries have equal messages.
// kind is KindCluster or KindBundle.
func ReadyMessage(summary fleet.BundleSummary, kind string) string {
	described := map[fleet.BundleState]fleet.NonReadyResource{}
	for _, listed := range summary.NonReadyResources {
		if first, found := described[listed.BundleState]; !found || first.Message == "" && listed.Message != "" {
			described[listed.BundleState] = listed
		}
	}
	var parts []string
	for state, listed := range described {
		if c := counter(&summary, state); c != nil && *c > 0 && state != fleet.Ready {
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

// WorstState returns the worst state that a summary lists, for display. It is empty if the summary lists nothing.
func WorstState(summary fleet.BundleSummary) string {
	var worst fleet.BundleState
	for _, listed := range summary.NonReadyResources {
		if Rank(listed.BundleState) > Rank(worst) {
			worst = listed.BundleState
		}
	}
	return string(worst)
}

// ReadyText returns "<ready>/<all>" of a summary, for display.
func ReadyText(summary fleet.BundleSummary) string {
	return fmt.Sprintf("%d/%d", summary.Ready, summary.DesiredReady)
}
