package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

type condition = genericcondition.GenericCondition

func TestRemoveCondition(t *testing.T) {
	list := []condition{{Type: "A"}, {Type: "B"}, {Type: "C"}}
	for _, step := range []struct{ remove, left string }{{"B", "AC"}, {"B", "AC"}, {"A", "C"}, {"C", ""}, {"C", ""}} {
		fleet.RemoveCondition(&list, step.remove)
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
		"the first one": {
			nil,
			condition{Type: "Ready", Status: "True"},
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: later}},
		},
		"a new one goes to the end": {
			[]condition{processed},
			condition{Type: "Ready", Status: "Unknown"},
			[]condition{processed, {Type: "Ready", Status: "Unknown", LastUpdateTime: later}},
		},
		"the same again changes nothing": {
			[]condition{processed, imported},
			condition{Type: "Imported", Status: "False", Reason: "Error", Message: "x"},
			[]condition{processed, imported},
		},
		"another status, in its place": {
			[]condition{imported, processed},
			condition{Type: "Imported", Status: "True"},
			[]condition{{Type: "Imported", Status: "True", LastUpdateTime: later}, processed},
		},
		"another reason": {
			[]condition{imported},
			condition{Type: "Imported", Status: "False", Reason: "AwaitingToken", Message: "x"},
			[]condition{{Type: "Imported", Status: "False", Reason: "AwaitingToken", Message: "x", LastUpdateTime: later}},
		},
		"another message": {
			[]condition{imported},
			condition{Type: "Imported", Status: "False", Reason: "Error", Message: "y"},
			[]condition{{Type: "Imported", Status: "False", Reason: "Error", Message: "y", LastUpdateTime: later}},
		},
		"a time given is not believed": {
			nil,
			condition{Type: "Ready", Status: "True", LastUpdateTime: "2001-01-01T00:00:00Z"},
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: later}},
		},
		"the transition's time is never written": {
			[]condition{imported},
			condition{Type: "Imported", Status: "True", LastTransitionTime: later},
			[]condition{{Type: "Imported", Status: "True", LastUpdateTime: later}},
		},
		"what another wrote there stays while nothing changes": {
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: earlier, LastTransitionTime: earlier}},
			condition{Type: "Ready", Status: "True"},
			[]condition{{Type: "Ready", Status: "True", LastUpdateTime: earlier, LastTransitionTime: earlier}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := append([]condition(nil), test.list...)
			fleet.SetCondition(&got, now, test.set)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			again := append([]condition(nil), got...)
			fleet.SetCondition(&again, now.Add(time.Hour), test.set)
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
		"there":                      {list, "Processed", &condition{Type: "Processed", Status: corev1.ConditionTrue}},
		"the first of two":           {list, "Ready", &condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "first"}},
		"not there":                  {list, "Imported", nil},
		"in another case":            {list, "ready", nil},
		"not there in an empty list": {nil, "Ready", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, fleet.GetCondition(test.list, test.conditionType)); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionsAndReasonsAreWordsWithASentence(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z][A-Za-z]+$`) // what API machinery asks of a reason
	found := constants(t, "conditions.go")
	seen := map[string]string{}
	for _, constant := range found {
		prefix, rest, ok := strings.Cut(constant.name, "Condition")
		if !ok {
			prefix, rest, _ = strings.Cut(constant.name, "Reason")
		}
		if prefix != "" || rest != constant.value || !word.MatchString(constant.value) {
			t.Errorf("%s = %q: want Condition<value> or Reason<value>, and a word", constant.name, constant.value)
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

func TestLabelsAreOfTheirKindAndDescribed(t *testing.T) {
	key := regexp.MustCompile(`^(fleet\.cattle\.io|objectset\.rio\.cattle\.io|management\.cattle\.io)/[a-z0-9/-]+$`)
	kind := regexp.MustCompile(`^(Label|Annotation|Finalizer|SecretType)[A-Z]`)
	seen := map[string]string{}
	found := constants(t, "labels.go")
	for _, constant := range found {
		if !kind.MatchString(constant.name) || !key.MatchString(constant.value) {
			t.Errorf("%s = %q", constant.name, constant.value)
		}
		if !strings.HasPrefix(constant.doc, constant.name) {
			t.Errorf("%s needs a sentence, has %q", constant.name, constant.doc)
		}
		sort := kind.FindStringSubmatch(constant.name)[1]
		if other, ok := seen[sort+constant.value]; ok {
			t.Errorf("%s and %s are the same key", other, constant.name)
		}
		seen[sort+constant.value] = constant.name
	}
	if len(found) < 40 {
		t.Errorf("only %d constants: the file was not read", len(found))
	}
}

type constant struct{ name, value, doc string }

// constants lists the text constants of a file of the package under test.
func constants(t *testing.T, file string) []constant {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var found []constant
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, constant{spec.Names[0].Name, value, strings.Join(strings.Fields(spec.Doc.Text()), " ")})
		return true
	})
	return found
}
