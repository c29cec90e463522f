package drift

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// FuzzCompare checks for any input that it is not changed, that no object differs from itself, and that nothing is
// left to patch once the patch was applied.
func FuzzCompare(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"data":{"a":"b"}}`, `{"data":{"a":"c","d":"e"}}`, "/data/a"},
		{`{"spec":{"list":[{"a":1},{"b":[]}],"n":0}}`, `{"spec":{"list":[{"a":1,"c":2},{"b":[]}],"n":1.5}}`, "/spec/list/0"},
		{`{"spec":{"ports":[{"port":53,"protocol":"UDP"},{"port":53}],"clusterIP":""}}`, `{"spec":{"ports":[{"port":53}],"clusterIP":"1.2.3.4"}}`, "/spec/ports/1/port"},
		{`{"spec":{"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1000m"}}}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"b"},{"name":"a"}]}}}}`, ""},
		{`{"metadata":{"finalizers":["a"],"labels":{"a":"b"}},"rules":[]}`, `{"metadata":{"finalizers":["b"]},"rules":[{}]}`, "//"},
		{`{"stringData":{"a":"b"},"spec":null}`, `{"data":{"a":"Yg=="},"spec":{"a":false}}`, "/data"},
	} {
		for kind := range fuzzedKinds() {
			f.Add(kind, seed[0], seed[1], seed[2])
		}
	}
	f.Fuzz(func(t *testing.T, kind, desiredText, liveText, pointer string) {
		desired, live := fuzzed(kind, desiredText), fuzzed(kind, liveText)
		if desired == nil || live == nil {
			return
		}
		rules := rulesOf(fleet.ComparePatch{Kind: "*", APIVersion: desired.GetAPIVersion(), JSONPointers: []string{pointer}, Operations: []fleet.Operation{{Op: "remove", Path: pointer}}})
		before := []*unstructured.Unstructured{desired.DeepCopy(), live.DeepCopy()}
		if _, err := comparer().Compare(Input{Desired: desired, Live: live, Rules: rules}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, []*unstructured.Unstructured{desired, live}); diff != "" {
			t.Errorf("the input was changed:\n%s", diff)
		}
		for _, object := range before {
			expectNone(t, object, object)
		}
		if kind == "Secret" {
			return // a Secret's patch does not contain its data
		}
		patch, err := comparer().Compare(Input{Desired: desired, Live: live})
		if err != nil || patch == nil {
			return
		}
		expectNone(t, desired, patched(t, live, patch))
	})
}

func expectNone(t *testing.T, desired, live *unstructured.Unstructured) {
	t.Helper()
	patch, err := comparer().Compare(Input{Desired: desired, Live: live})
	if err != nil {
		t.Fatal(err)
	}
	if patch != nil {
		t.Errorf("there is drift: %s\ndesired %v\nlive %v", patch.Text(same), desired.Object, live.Object)
	}
}

// fuzzedKinds returns some kinds with and some without a Go type, with their API versions.
func fuzzedKinds() map[string]string {
	return map[string]string{
		"ConfigMap": "v1", "Secret": "v1", "Service": "v1", "Deployment": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1",
		"ClusterRole": "rbac.authorization.k8s.io/v1", "Thing": "example.com/v1", "APIService": "apiregistration.k8s.io/v1",
	}
}

// fuzzed returns the object in a text, or nil.
func fuzzed(kind, text string) *unstructured.Unstructured {
	version, known := fuzzedKinds()[kind]
	var fields map[string]any
	if !known || utiljson.Unmarshal([]byte(text), &fields) != nil || fields == nil {
		return nil
	}
	out := &unstructured.Unstructured{Object: fields}
	if _, isMap := fields["metadata"].(map[string]any); !isMap {
		delete(fields, "metadata")
	}
	out.SetAPIVersion(version)
	out.SetKind(kind)
	out.SetName("a")
	return out
}

func patched(t *testing.T, live *unstructured.Unstructured, patch Patch) *unstructured.Unstructured {
	t.Helper()
	var texts [2][]byte
	for i, value := range []any{live.Object, map[string]any(patch)} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	text, err := jsonpatch.MergePatch(texts[0], texts[1])
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(text, &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

func BenchmarkCompare(b *testing.B) {
	desired := object(b, containers("{name: a, image: i, resources: {limits: {cpu: 1000m}}, env: [{name: A, value: '1'}, {name: B, value: '2'}]}"))
	live := object(b, containers("{name: a, image: j, resources: {limits: {cpu: '1'}}, imagePullPolicy: Always, env: [{name: A, value: '1'}, {name: B, value: '2'}]}"))
	b.ReportAllocs()
	for b.Loop() {
		if patch, err := comparer().Compare(Input{Desired: desired, Live: live}); err != nil || patch == nil {
			b.Fatal(patch, err)
		}
	}
}
