package watch

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/summary"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// observation is the last observed state of an object of a release.
type observation struct {
	// Exists is false if the object does not exist.
	Exists bool
	// Owned is false if the object lacks the label of the set: it belongs to another owner.
	Owned           bool
	UID             types.UID
	ResourceVersion string
	Created         metav1.Time
	Summary         fleet.ResourceSummary
	// Compared is true once the object was compared with the deployed manifest. Patch is the patch that would restore
	// the deployed state, "" without drift. Confidential values in it are redacted.
	Compared bool
	Patch    string
	// Dropped is a patch that the API server does not apply. It is set for the agent's own objects only.
	Dropped string
	// Content is a hash of the object without its status. The comparison stays valid while Content is the same.
	Content uint64
	// CompareAgain is when the comparison ends to be valid, zero for never.
	CompareAgain time.Time
}

// inPlace reports whether the object exists and belongs to the release.
func (o observation) inPlace() bool { return o.Exists && o.Owned }

// ready reports whether the object is neither in error nor in transition. A missing object is neither: it counts
// modified.
func (o observation) ready() bool { return !o.Summary.Error && !o.Summary.Transitioning }

// observe returns the state of a live object, without conditions that the options ignore.
func observe(live *unstructured.Unstructured, hash string, ignored []map[string]string) observation {
	if len(ignored) > 0 {
		live = withoutConditions(live, ignored)
	}
	return observation{
		Exists:          true,
		Owned:           live.GetLabels()[fleet.LabelSetHash] == hash,
		UID:             live.GetUID(),
		ResourceVersion: live.GetResourceVersion(),
		Created:         live.GetCreationTimestamp(),
		Summary:         summarise(live),
		Content:         contentOf(live),
	}
}

// summarise computes the state of an object. An object whose status does not match its spec is transitioning,
// whatever its conditions say.
func summarise(live *unstructured.Unstructured) fleet.ResourceSummary {
	found := summary.Summarize(live)
	s := fleet.ResourceSummary{
		State: found.State, Error: found.Error, Transitioning: found.Transitioning, Message: found.Message,
	}
	computed, err := status.Compute(live)
	if err != nil {
		return s // the status cannot be interpreted
	}
	switch computed.Status {
	case status.InProgressStatus, status.TerminatingStatus:
		s.Transitioning = true
	case status.FailedStatus:
		s.Error = true
	default:
		return s
	}
	if text := strings.TrimSpace(computed.Message); text != "" && !slices.Contains(s.Message, text) {
		s.Message = append(s.Message, text)
	}
	return s
}

// withoutConditions returns a copy without those conditions that match all fields of an entry of ignored.
func withoutConditions(live *unstructured.Unstructured, ignored []map[string]string) *unstructured.Unstructured {
	conditions, found, err := unstructured.NestedSlice(live.Object, "status", "conditions")
	if err != nil || !found {
		return live
	}
	kept := slices.DeleteFunc(conditions, func(entry any) bool {
		condition, isObject := entry.(map[string]any)
		return isObject && slices.ContainsFunc(ignored, func(fields map[string]string) bool {
			return hasFields(condition, fields)
		})
	})
	old, _ := live.Object["status"].(map[string]any)
	changed := maps.Clone(old)
	changed["conditions"] = kept
	object := maps.Clone(live.Object)
	object["status"] = changed
	return &unstructured.Unstructured{Object: object}
}

func hasFields(condition map[string]any, fields map[string]string) bool {
	for key, want := range fields {
		if got, ok := condition[key].(string); !ok || got != want {
			return false
		}
	}
	return len(fields) > 0
}
