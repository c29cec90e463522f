package hub

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestTrimmed(t *testing.T) {
	buffers := newTrims()
	leave := leftOut{"metadata": {"managedFields": nil}, "status": {"resources": nil}, "content": nil}
	tests := map[string]struct{ in, want string }{
		"what is left out":             {`{"metadata":{"managedFields":[{"manager":"a"}],"name":"n"},"status":{"resources":[1,2]}}`, `{"metadata":{"managedFields":null,"name":"n"},"status":{"resources":null}}`},
		"at the end and in between":    {`{"a":1,"content":"x","metadata":{"name":"n","managedFields":[]}}`, `{"a":1,"content":null,"metadata":{"name":"n","managedFields":null}}`},
		"a number":                     {`{"content":-1.5e3,"a":true}`, `{"content":null,"a":true}`},
		"a word":                       {`{"content":false}`, `{"content":null}`},
		"nothing yet":                  {`{"content":null}`, `{"content":null}`},
		"an object":                    {`{"content":{"content":{}},"a":{"content":1}}`, `{"content":null,"a":{"content":1}}`},
		"brackets in texts":            {`{"content":["]}\"]","\\"],"a":"}"}`, `{"content":null,"a":"}"}`},
		"a name with quotes":           {`{"con\"tent":1,"content\\":2}`, ``},
		"a name in other characters":   {`{"\u0063ontent":1}`, ``},
		"other names":                  {`{"metadata":{"name":"managedFields"},"spec":{"resources":[1],"managedFields":[2]},"resources":[3]}`, ``},
		"no object where one is":       {`{"metadata":null,"status":"resources","content":""}`, `{"metadata":null,"status":"resources","content":null}`},
		"a list where an object is":    {`{"status":[{"resources":1},2,{"resources":[3]}],"metadata":[]}`, `{"status":[{"resources":null},2,{"resources":null}],"metadata":[]}`},
		"a list of lists":              {`{"status":[[{"resources":1}],[]]}`, `{"status":[[{"resources":null}],[]]}`},
		"a list without an end":        {`{"status":[{"resources":1}`, ``},
		"a list that ends as objects":  {`{"status":[{"resources":1}}`, ``},
		"a list without an element":    {`{"status":[{"resources":1},]}`, ``},
		"empty objects":                {`{"metadata":{},"status":{}}`, ``},
		"twice":                        {`{"content":1,"content":[2]}`, `{"content":null,"content":null}`},
		"nothing":                      {``, ``},
		"a list":                       {`[{"content":1}]`, `[{"content":null}]`},
		"no object":                    {`"content"`, ``},
		"spaces after names":           {`{"content": 1,"a" :2}`, ``},
		"spaces between fields":        {`{"content":1, "a":2}`, ``},
		"something behind":             {`{"content":1}{}`, ``},
		"cut off in a text":            {`{"content":"abc`, ``},
		"cut off in a name":            {`{"content":1,"a`, ``},
		"cut off in a list":            {`{"content":[1,2`, ``},
		"cut off behind a backslash":   {`{"content":"abc\`, ``},
		"cut off before a value":       {`{"content":`, ``},
		"cut off behind a comma":       {`{"content":1,`, ``},
		"closed where nothing is open": {`{"content":}`, ``},
		"no name":                      {`{1:2}`, ``},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.want == "" {
				test.want = test.in
			}
			for range 2 { // buffers are reused
				if got := trimmedText(buffers, leave, test.in); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			}
			if got := trimmedText(buffers, nil, test.in); got != test.in {
				t.Errorf("got %s where nothing is left out", got)
			}
		})
	}
}

func trimmedText(buffers *trims, leave leftOut, data string) (out string) {
	_ = buffers.without(leave, []byte(data), func(data []byte) error {
		out = string(data)
		return nil
	})
	return out
}

// laden returns a document of a kind with all fields that may be left out.
func laden(t testing.TB, kind string) []byte {
	t.Helper()
	var resources []any
	for i := range 10 {
		resources = append(resources, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": fmt.Sprint("config-", i), "namespace": "default", "createdAt": "2026-01-02T03:04:05Z"})
	}
	written := map[string]any{"apiVersion": "fleet.cattle.io/v1alpha1", "fieldsType": "FieldsV1", "manager": "fleetcontroller", "operation": "Update", "time": "2026-01-02T03:04:05Z",
		"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{".": map[string]any{}, `k:{"name":"}"}`: map[string]any{}}}}}
	document := map[string]any{
		"apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind,
		"metadata": map[string]any{"name": "n", "namespace": "ws", "uid": "u", "labels": map[string]any{"managedFields": "mine"}, "managedFields": []any{written, written, written}},
		"status":   map[string]any{"display": map[string]any{"state": "Ready"}, "resources": resources, "release": "ns/n:1"},
		"spec":     map[string]any{"deploymentID": "s-1:2", "options": map[string]any{"helm": map[string]any{"values": map[string]any{"resources": []any{"a"}, "managedFields": "b"}}}},
	}
	if kind == "Content" {
		delete(document, "spec")
		document["content"], document["sha256sum"] = "YWJj", "sum"
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// Only fields that caches drop are left out, for any kind. They are kept where a controller may read them.
func TestLeftOutFields_AreThoseThatCachesDrop(t *testing.T) {
	quick, general := decoders(t)
	kinds := map[string]func() runtime.Object{
		"BundleDeployment": func() runtime.Object { return &fleet.BundleDeployment{} },
		"Bundle":           func() runtime.Object { return &fleet.Bundle{} },
		"Cluster":          func() runtime.Object { return &fleet.Cluster{} },
		"Content":          func() runtime.Object { return &fleet.Content{} },
	}
	for kind, empty := range kinds {
		t.Run(kind, func(t *testing.T) {
			data := laden(t, kind)
			whole, _, err := general.Decode(data, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			slimmed := slimOf(t, whole.DeepCopyObject())
			inEvent, _, err := quick.Decode(data, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if fields := managedFieldsOf(inEvent); fields != nil {
				t.Errorf("in an event: %v", fields)
			}
			if diff := cmp.Diff(slimmed, slimOf(t, inEvent)); diff != "" {
				t.Errorf("a cache has (-of the whole +of what is left):\n%s", diff)
			}
			inAnswer, _, err := quick.Decode(data, nil, empty())
			if err != nil {
				t.Fatal(err)
			}
			if kind == "Cluster" {
				if diff := cmp.Diff(whole, inAnswer); diff != "" {
					t.Errorf("an answer (-whole +got):\n%s", diff)
				}
				return
			}
			if fields := managedFieldsOf(inAnswer); fields != nil {
				t.Errorf("in an answer: %v", fields)
			}
			if diff := cmp.Diff(slimmed, slimOf(t, inAnswer)); diff != "" {
				t.Errorf("an answer (-whole +got):\n%s", diff)
			}
		})
	}
}

// Lists go into caches like events.
func TestLeftOutFieldsOfLists_AreThoseOfEvents(t *testing.T) {
	quick, general := decoders(t)
	lists := map[string]func() runtime.Object{
		"BundleDeployment": func() runtime.Object { return &fleet.BundleDeploymentList{} },
		"Bundle":           func() runtime.Object { return &fleet.BundleList{} },
		"Cluster":          func() runtime.Object { return &fleet.ClusterList{} },
		"Content":          func() runtime.Object { return &fleet.ContentList{} },
	}
	for kind, empty := range lists {
		t.Run(kind, func(t *testing.T) {
			list := listOf(kind, laden(t, kind), laden(t, kind))
			whole, left := itemsOf(t, general, list, empty()), itemsOf(t, quick, list, empty())
			if len(whole) != 2 || len(left) != 2 {
				t.Fatalf("%d objects, %d are left", len(whole), len(left))
			}
			for i := range whole {
				if fields := managedFieldsOf(left[i]); fields != nil {
					t.Errorf("in a list: %v", fields)
				}
				if diff := cmp.Diff(slimOf(t, whole[i]), slimOf(t, left[i])); diff != "" {
					t.Errorf("a cache has (-of the whole +of what is left):\n%s", diff)
				}
			}
		})
	}
}

func itemsOf(t *testing.T, decoder runtime.Decoder, list []byte, into runtime.Object) []runtime.Object {
	t.Helper()
	if _, _, err := decoder.Decode(list, nil, into); err != nil {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(into)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func managedFieldsOf(object runtime.Object) []metav1.ManagedFieldsEntry {
	item, _ := object.(metav1.Object) // all are objects
	return item.GetManagedFields()
}

// slimOf returns what a cache keeps of an object.
func slimOf(t testing.TB, object runtime.Object) any {
	t.Helper()
	out, err := newPool().slim(object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A trimmed document decodes like the complete one, except for fields that caches drop.
func FuzzTrimmed(f *testing.F) {
	for _, kind := range []string{"BundleDeployment", "Bundle", "Content", "Cluster"} {
		f.Add(laden(f, kind))
	}
	f.Add([]byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeployment","metadata":{"managedFields":[{"manager":"\\\""}],"name":"}"},"status":{"resources":[[{"a":"]"}]]}}`))
	quick, general := decoders(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		want, _, err := general.Decode(data, nil, nil)
		if err != nil || !strings.HasPrefix(string(data), `{"apiVersion":"fleet.cattle.io`) {
			return
		}
		got, _, err := quick.Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slimOf(t, want), slimOf(t, got)); diff != "" {
			t.Errorf("a cache has (-of the whole +of what is left):\n%s", diff)
		}
	})
}

func BenchmarkTrimmed(b *testing.B) {
	quick, general := decoders(b)
	data := laden(b, "BundleDeployment")
	for name, decoder := range map[string]runtime.Decoder{"quick": quick, "general": general} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := decoder.Decode(data, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
