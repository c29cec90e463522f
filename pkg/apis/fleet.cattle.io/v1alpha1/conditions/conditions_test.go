package conditions_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

type condition = genericcondition.GenericCondition

func TestRemoveCondition(t *testing.T) {
	list := []condition{{Type: "A"}, {Type: "B"}, {Type: "C"}}
	for _, step := range []struct{ remove, left string }{{"B", "AC"}, {"B", "AC"}, {"A", "C"}, {"C", ""}, {"C", ""}} {
		conditions.Remove(&list, step.remove)
		left := ""
		for _, c := range list {
			left += c.Type
		}
		if left != step.left {
			t.Errorf("without %s: %s, want %s", step.remove, left, step.left)
		}
	}
}

func TestSetCondition(t *testing.T) {
	const earlier, later = "2026-01-02T03:04:05Z", "2026-01-02T04:00:00Z"
	now := time.Date(2026, 1, 2, 5, 0, 0, 999, time.FixedZone("east of Greenwich", 3600))
	processed := condition{Type: "Processed", Status: "True", LastUpdateTime: earlier}
	imported := condition{Type: "Imported", Status: "False", Reason: "Error", Message: "x", LastUpdateTime: earlier}
	tests := map[string]struct {
		list []condition
		set  condition
		want []condition
	}{
		"first condition: added": {
			nil,
			condition{Type: "Ready", Status: "True"},
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: later}},
		},
		"new condition: appended": {
			[]condition{processed},
			condition{Type: "Ready", Status: "Unknown"},
			[]condition{processed, {Type: "Ready", Status: "Unknown", LastUpdateTime: later}},
		},
		"same condition: no change": {
			[]condition{processed, imported},
			condition{Type: "Imported", Status: "False", Reason: "Error", Message: "x"},
			[]condition{processed, imported},
		},
		"other status: replaced in place": {
			[]condition{imported, processed},
			condition{Type: "Imported", Status: "True"},
			[]condition{{Type: "Imported", Status: "True", LastUpdateTime: later}, processed},
		},
		"other reason: replaced": {
			[]condition{imported},
			condition{Type: "Imported", Status: "False", Reason: "AwaitingToken", Message: "x"},
			[]condition{{Type: "Imported", Status: "False", Reason: "AwaitingToken", Message: "x", LastUpdateTime: later}},
		},
		"other message: replaced": {
			[]condition{imported},
			condition{Type: "Imported", Status: "False", Reason: "Error", Message: "y"},
			[]condition{{Type: "Imported", Status: "False", Reason: "Error", Message: "y", LastUpdateTime: later}},
		},
		"given time: ignored": {
			nil,
			condition{Type: "Ready", Status: "True", LastUpdateTime: "2001-01-01T00:00:00Z"},
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: later}},
		},
		"given transition time: ignored": {
			[]condition{imported},
			condition{Type: "Imported", Status: "True", LastTransitionTime: later},
			[]condition{{Type: "Imported", Status: "True", LastUpdateTime: later}},
		},
		"no change: times of other writers stay": {
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: earlier, LastTransitionTime: earlier}},
			condition{Type: "Ready", Status: "True"},
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: earlier, LastTransitionTime: earlier}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := append([]condition(nil), test.list...)
			conditions.Set(&got, now, test.set)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			again := append([]condition(nil), got...)
			conditions.Set(&again, now.Add(time.Hour), test.set)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("set an hour later (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestGetCondition(t *testing.T) {
	list := []condition{{Type: "Processed", Status: "True"}, {Type: "Ready", Status: "False", Reason: "first"}, {Type: "Ready", Status: "True", Reason: "second"}}
	tests := map[string]struct {
		list          []condition
		conditionType string
		want          *condition
	}{
		"exists":                      {list, "Processed", &condition{Type: "Processed", Status: corev1.ConditionTrue}},
		"two of this type: the first": {list, "Ready", &condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "first"}},
		"does not exist":              {list, "Imported", nil},
		"other case: does not match":  {list, "ready", nil},
		"empty list":                  {nil, "Ready", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, conditions.Get(test.list, test.conditionType)); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

// States that an operator has chosen, or that pass by themselves, are no trouble.
func TestIsTrouble(t *testing.T) {
	for _, test := range []struct {
		condition condition
		want      bool
	}{
		{condition{Status: "False", Reason: conditions.ReasonImportedTwice}, true},
		{condition{Status: "True", Reason: conditions.ReasonImportedTwice}, false},
		{condition{Status: "Unknown", Reason: conditions.ReasonImportedTwice}, false},
		{condition{Status: "False"}, false},
		{condition{Status: "False", Reason: conditions.ReasonAwaitingAgent}, false},
		{condition{Status: "False", Reason: conditions.ReasonAgentInherited}, false},
		{condition{Status: "False", Reason: conditions.ReasonClusterPaused}, false},
		{condition{Status: "False", Reason: conditions.ReasonNotSelected}, false},
	} {
		if got := conditions.IsTrouble(test.condition); got != test.want {
			t.Errorf("%+v: %v", test.condition, got)
		}
	}
}

func TestConstants_AreWordsWithADescription(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z][A-Za-z]+$`) // the format that Kubernetes requires for a reason
	found := constants(t)
	seen := map[string]string{}
	for _, constant := range found {
		if strings.TrimPrefix(constant.name, "Reason") != constant.value || !word.MatchString(constant.value) {
			t.Errorf("%s = %q: want <value> for a type or Reason<value>, and a word", constant.name, constant.value)
		}
		if !strings.HasPrefix(constant.doc, constant.name+" means that ") && !strings.HasPrefix(constant.doc, constant.name+", on ") || !strings.HasSuffix(constant.doc, ".") {
			t.Errorf("%s needs a sentence, has %q", constant.name, constant.doc)
		}
		if other, ok := seen[constant.doc]; ok {
			t.Errorf("%s and %s have the same sentence", other, constant.name)
		}
		seen[constant.doc] = constant.name
	}
	if len(found) < 30 {
		t.Errorf("only %d constants: the file was not read", len(found))
	}
}
