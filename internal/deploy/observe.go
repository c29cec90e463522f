package deploy

import (
	"maps"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/summary"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// objectRef is an object of a release, whether it is there or not.
type objectRef struct {
	schema.GroupVersionKind
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
}

// observation is what was last seen of an object of a release.
type observation struct {
	// Exists is false when the object is not there.
	Exists bool
	// Owned is false when the object does not carry the set's label: it is somebody else's.
	Owned           bool
	UID             types.UID
	ResourceVersion string
	Created         metav1.Time
	Summary         fleet.ResourceSummary
	// Compared is true once the object was compared with what was deployed. Patch is what would make it that, ""
	// for nothing; confidential values are not in it.
	Compared bool
	Patch    string
	// Content stands for all of the object but its status: while it is the same, so is the comparison.
	Content uint64
}

// inPlace means that the object is there, and the release's.
func (o observation) inPlace() bool { return o.Exists && o.Owned }

// ready means that nothing more is to come of the object. One that is missing is none of that: it counts as
// modified.
func (o observation) ready() bool { return !o.Summary.Error && !o.Summary.Transitioning }

// observe looks at an object of the cluster. Conditions that the options disregard do not count.
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

// summarise tells the state of an object. Whatever its conditions say, one that is not what its spec asks for
// is on its way there.
func summarise(live *unstructured.Unstructured) fleet.ResourceSummary {
	found := summary.Summarize(live)
	s := fleet.ResourceSummary{
		State: found.State, Error: found.Error, Transitioning: found.Transitioning, Message: found.Message,
	}
	computed, err := status.Compute(live)
	if err != nil {
		return s // it has no status that could be understood
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

// withoutConditions returns a copy without the conditions that have all fields of one of ignored.
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
