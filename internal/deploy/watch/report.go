package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// ListLimit limits the lists of objects that are not ready or modified.
const ListLimit = 10

// observedObject is an object of a release with its last observed state.
type observedObject struct {
	manifest.Ref
	observation
}

// Report summarizes the states of all objects of a release.
type Report struct {
	Resources  []fleet.DeployedResource
	Counts     fleet.ResourceCounts
	NonReady   []fleet.NonReadyStatus
	Modified   []fleet.ModifiedStatus
	Incomplete bool
	// Ready is true if no object is in transition or in error. NonModified is true if no object is missing, changed or
	// left over.
	Ready, NonModified bool
	// Warning describes what limits the observation: failed watches, an invalid rule for differences to ignore, or fields of the agent
	// that the API server does not keep. It may be empty.
	Warning string
}

// newReport summarizes objects, which are in the order of the release's manifest, and extras, which should have
// been deleted. A changed object counts as modified, whether it is ready or not.
func newReport(objects []observedObject, extras ...manifest.Ref) Report {
	var r Report
	r.Counts.DesiredReady = len(objects)
	for _, s := range inListOrder(objects) {
		if !s.inPlace() {
			r.Modified = append(r.Modified, missing(s))
			r.Counts.Missing++
			continue
		}
		switch {
		case s.Patch != "":
			r.Modified = append(r.Modified, changed(s))
			r.Counts.Modified++
		case !s.ready():
			r.Counts.NotReady++
		default:
			r.Counts.Ready++
		}
		r.Resources = append(r.Resources, fleet.DeployedResource{
			Kind: s.Kind, APIVersion: s.APIVersion(), Namespace: s.Namespace, Name: s.Name, CreatedAt: s.Created,
		})
		if !s.ready() {
			r.NonReady = append(r.NonReady, fleet.NonReadyStatus{
				UID: s.UID, Kind: s.Kind, APIVersion: s.APIVersion(), Namespace: s.Namespace, Name: s.Name,
				Summary: s.Summary,
			})
		}
	}
	for _, ref := range extras {
		r.Modified = append(r.Modified, fleet.ModifiedStatus{
			Kind: ref.Kind, APIVersion: ref.APIVersion(), Namespace: ref.Namespace, Name: ref.Name, Delete: true,
		})
	}
	r.Counts.Orphaned = len(extras)
	r.Ready, r.NonModified = len(r.NonReady) == 0, len(r.Modified) == 0
	r.limit()
	return r
}

// Monitored records the state of the release's objects.
func Monitored(status *fleet.BundleDeploymentStatus, now time.Time, r Report, syncGeneration int64) {
	status.Ready, status.NonModified = r.Ready, r.NonModified
	status.NonReadyStatus, status.ModifiedStatus = r.NonReady, r.Modified
	status.IncompleteState = r.Incomplete
	status.Resources, status.ResourceCounts = r.Resources, r.Counts
	status.SyncGeneration = &syncGeneration
	message := notReadyMessage(r)
	if installed := conditions.Get(status.Conditions, conditions.Installed); installed != nil && installed.Status == "False" {
		status.Ready, message = false, installed.Message // the namespace could not be labelled
	}
	outcome.SetCondition(status, now, conditions.Ready, message)
	outcome.Monitored(status, now, r.Warning)
}

// notReadyMessage describes the first object that is not ready, or else the first one that is modified. It
// returns "" if all are ready and unmodified.
func notReadyMessage(r Report) string {
	switch {
	case len(r.NonReady) > 0:
		return state.NonReadyText(r.NonReady[0])
	case len(r.Modified) > 0:
		return state.ModifiedText(r.Modified[0])
	}
	return ""
}

func missing(s observedObject) fleet.ModifiedStatus {
	return fleet.ModifiedStatus{
		Kind: s.Kind, APIVersion: s.APIVersion(), Namespace: s.Namespace, Name: s.Name,
		Missing: true, Exist: s.Exists,
	}
}

func changed(s observedObject) fleet.ModifiedStatus {
	return fleet.ModifiedStatus{
		Kind: s.Kind, APIVersion: s.APIVersion(), Namespace: s.Namespace, Name: s.Name, Patch: s.Patch,
	}
}

// limit sorts the lists and truncates them.
func (r *Report) limit() {
	slices.SortFunc(r.NonReady, func(a, b fleet.NonReadyStatus) int { return cmp.Compare(a.UID, b.UID) })
	slices.SortFunc(r.Modified, func(a, b fleet.ModifiedStatus) int {
		return cmp.Compare(modifiedKey(a), modifiedKey(b))
	})
	r.Incomplete = len(r.NonReady) > ListLimit || len(r.Modified) > ListLimit
	r.NonReady = r.NonReady[:min(len(r.NonReady), ListLimit)]
	r.Modified = r.Modified[:min(len(r.Modified), ListLimit)]
}

func modifiedKey(m fleet.ModifiedStatus) string {
	return strings.Join([]string{m.APIVersion, m.Kind, m.Namespace, m.Name}, "/")
}

// inListOrder sorts objects as Kubernetes lists would return them: by the first occurrence of their kind in the
// manifest, then by namespace and name.
func inListOrder(objects []observedObject) []observedObject {
	first := map[string]int{}
	for i, s := range objects {
		if _, seen := first[s.String()]; !seen {
			first[s.String()] = i
		}
	}
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b observedObject) int {
		return cmp.Or(
			cmp.Compare(first[a.String()], first[b.String()]),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return ordered
}
