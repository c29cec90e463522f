package drift

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// allocations counts the work of f, as the number of its allocations.
func allocations(f func()) float64 { return testing.AllocsPerRun(1, f) }

// Rules for other objects must not make an object more expensive.
func TestManyRules_EachObjectCostsTheSame(t *testing.T) {
	const count = 5_000
	one := []fleet.ComparePatch{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", Namespace: "ns", JSONPointers: []string{"/data/a"}}}
	many := one
	for i := range count {
		many = append(many, fleet.ComparePatch{
			APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("other-", i), Namespace: "ns",
			JSONPointers: []string{"/data/a"}, Operations: []fleet.Operation{{Op: "ignore"}, {Op: "remove", Path: "/data/b"}},
		})
	}
	few, all := rulesOf(one...), rulesOf(many...)
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	in := Input{Desired: object(t, configMap+"data: {a: b}}"), Live: object(t, configMap+"data: {a: c}}")}
	for name, cost := range map[string]func(Rules) float64{
		"to compare": func(rules Rules) float64 {
			in.Rules = rules
			return allocations(func() {
				if patch, err := comparer().Compare(in); patch != nil || err != nil {
					t.Fatal(patch, err)
				}
			})
		},
		"to be missing": func(rules Rules) float64 {
			return allocations(func() {
				if rules.AllowMissing(gvk, "ns", "c") {
					t.Fatal("it may be missing")
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if alone, among := cost(few), cost(all); among > 2*alone+10 {
				t.Errorf("%v allocations with one rule, %v with %d", alone, among, count)
			}
		})
	}
	if got := all.candidates(gvk, "ns", "c"); len(got) != 1 {
		t.Errorf("%d rules are tried", len(got))
	}
}

// An operation must not read the whole object.
func TestManyOperations_CostAsMuchAsTheirPaths(t *testing.T) {
	data := map[string]any{}
	for i := range 5_000 {
		data[fmt.Sprint("k", i)] = "v"
	}
	large := map[string]any{"metadata": map[string]any{"name": "c", "namespace": "ns"}, "data": data}
	rule := fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "c", Namespace: "ns"}
	for i := range 1_000 {
		rule.JSONPointers = append(rule.JSONPointers, fmt.Sprint("/data/k", i))
		rule.Operations = append(rule.Operations, fleet.Operation{Op: "replace", Path: fmt.Sprint("/data/k", 1_000+i), Value: "w"})
	}
	rules := rulesOf(rule)
	cost := allocations(func() { rules.apply(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, large) })
	if cost > 100_000 {
		t.Errorf("%v allocations for 2000 operations", cost)
	}
	if len(data) != 4_000 || data["k1000"] != "w" {
		t.Errorf("%d values are left, k1000 is %v", len(data), data["k1000"])
	}
}

func TestManyAutoscalers_EachWorkloadLooksAtItsOwn(t *testing.T) {
	var release []*unstructured.Unstructured
	for i := range 100 {
		release = append(release, object(t, fmt.Sprintf("{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: ns}, "+
			"spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d%d}}}", i)), object(t, configMap+"data: {}}"))
	}
	found := AutoscalersOf(release)
	if got := found[workload{"ns", "Deployment", "d7"}]; len(found) != 100 || len(got) != 1 {
		t.Errorf("%d workloads, %d autoscalers of one", len(found), len(got))
	}
}

func TestRulesForSeveralObjects_AreLimited(t *testing.T) {
	pointers := make([]string, maxShared+1)
	tests := map[string]struct {
		rule fleet.ComparePatch
		want error
	}{
		"many pointers for one object":  {fleet.ComparePatch{Kind: "A", Name: "a", Namespace: "ns", JSONPointers: pointers}, nil},
		"many pointers for all objects": {fleet.ComparePatch{Kind: "*", JSONPointers: pointers}, ErrTooManyRules},
		"a large regular expression":    {fleet.ComparePatch{Kind: "A", Name: strings.Repeat("a{1000}", 21), Namespace: "ns", JSONPointers: []string{"/a"}}, ErrTooManyRules},
		"a large expression of what may be missing": {
			fleet.ComparePatch{Kind: "A", Name: strings.Repeat("a{1000}", 21), Operations: []fleet.Operation{{Op: "ignore"}}}, ErrTooManyRules,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := rulesOf(test.rule).Err(); got != test.want { //nolint:errorlint // exactly this error
				t.Errorf("error %v", got)
			}
		})
	}
}

func TestInvalidRules_AreDescribed(t *testing.T) {
	t.Parallel()
	pointer := []string{"/data"}
	operation := func(op, path string) fleet.ComparePatch {
		return fleet.ComparePatch{APIVersion: "v1", Kind: "A", Name: "a", Operations: []fleet.Operation{{Op: op, Path: path}}}
	}
	tests := map[string]struct {
		rule fleet.ComparePatch
		want string
	}{
		"all is valid": {fleet.ComparePatch{
			APIVersion: "apps/v1", Kind: "[AB]*", Name: "a.*", JSONPointers: pointer, Operations: []fleet.Operation{{Op: "ignore"}, {Op: "add", Path: "/a"}},
		}, ""},
		"name with jsonPointers": {fleet.ComparePatch{Kind: "A", Name: "a[", JSONPointers: pointer}, `name "a[" is not a valid regular expression`},
		"name that may be missing": {
			fleet.ComparePatch{Kind: "A", Name: "(a", Operations: []fleet.Operation{{Op: "ignore"}}}, `name "(a" is not a valid regular expression`,
		},
		"kind":                          {fleet.ComparePatch{Kind: "A[", JSONPointers: pointer}, `kind "A[" is not a valid pattern`},
		"apiVersion":                    {fleet.ComparePatch{APIVersion: "a/b/c", Kind: "A", JSONPointers: pointer}, `apiVersion "a/b/c" is not of the form group/version`},
		"JSON pointer":                  {fleet.ComparePatch{Kind: "A", JSONPointers: []string{"/data", "spec.replicas", "x"}}, `JSON pointer "spec.replicas" does not begin with /`},
		"path of an operation":          {operation("remove", "spec/a"), `JSON pointer "spec/a" does not begin with /`},
		"operation":                     {operation("explode", "/data"), `operation "explode" is not add, remove, replace or ignore`},
		"operation with a long name":    {operation(strings.Repeat("x", 1000), "/data"), `operation "` + strings.Repeat("x", 80) + `" is not add, remove, replace or ignore`},
		"operation ignore with no path": {operation("ignore", ""), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := test.want
			if want != "" {
				want = "diff.comparePatches: " + want + ": correct or remove it"
			}
			if got := rulesOf(test.rule); got.Mistake() != want || got.Err() != nil {
				t.Errorf("mistake %q, want %q; error %v", got.Mistake(), want, got.Err())
			}
		})
	}
}

func TestRulesOfAnObject_ApplyInTheirOrder(t *testing.T) {
	t.Parallel()
	rule := func(kind, name string, pointers ...string) fleet.ComparePatch {
		return fleet.ComparePatch{APIVersion: "v1", Kind: kind, Name: name, Namespace: "ns", JSONPointers: pointers}
	}
	first := rule("ConfigMap", "c", "/list/0")
	first.Operations = []fleet.Operation{{Op: "add", Path: "/list/0", Value: "x"}}
	rules := rulesOf(rule("Config*", "", "/list/2"), first, rule("ConfigMap", "[cd]", "/list/-1"), rule("ConfigMap", "", "/list/1"))
	got := map[string]any{"metadata": map[string]any{"name": "c", "namespace": "ns"}, "list": []any{"0", "1", "2", "3", "4"}}
	rules.apply(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, got)
	if diff := cmp.Diff([]any{"x", "3"}, got["list"]); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// FuzzOperate compares operations with those of the library that applies JSON patches for kubectl and Helm.
func FuzzOperate(f *testing.F) {
	const seed = `{"a":{"b":[1,{"c":"d"},[2,3]],"":{"x~y":1,"p/q":2}},"n":null,"s":"t"}`
	for _, path := range []string{
		"/a", "/a/b", "/a/b/0", "/a/b/1/c", "/a/b/-", "/a/b/-1", "/a/b/-4", "/a/b/3", "/a/b/4", "/a/b/2/1", "/a/b/01", "/a/b/x", "/a//x~0y",
		"/a//p~1q", "/n", "/n/x", "/s", "/s/x", "/new", "/new/x", "/a/", "", "/", "a", "x/a", "//", "/a/b/2/-", "/a/b/-3/0", "/a/b/2/-2",
	} {
		for _, op := range []string{"add", "remove", "replace", "test", "move", "copy", "explode"} {
			f.Add(seed, op, path, "v")
			f.Add(seed, op, path, "")
		}
	}
	f.Fuzz(func(t *testing.T, text, op, path, value string) {
		var got map[string]any
		if utiljson.Unmarshal([]byte(text), &got) != nil || got == nil {
			return
		}
		before, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		operation := fleet.Operation{Op: op, Path: path, Value: value}
		operate(got, operation)
		var want map[string]any
		if err := utiljson.Unmarshal(operatedByLibrary(t, before, operation), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %q (-library +got):\n%s", op, path, diff)
		}
	})
}

// operatedByLibrary returns text unchanged if the library does not apply the operation.
func operatedByLibrary(t *testing.T, text []byte, operation fleet.Operation) []byte {
	t.Helper()
	encoded, err := json.Marshal([]fleet.Operation{operation})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		return text
	}
	changed, err := patch.Apply(text)
	if err != nil {
		return text
	}
	return changed
}
