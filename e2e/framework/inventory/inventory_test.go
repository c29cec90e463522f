package inventory

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// server is a fake API server with two Secrets, an Event, and a resource that can only be created.
func server(t *testing.T, broken string) *rest.Config {
	t.Helper()
	resources := func(version string, list ...metav1.APIResource) metav1.APIResourceList {
		return metav1.APIResourceList{GroupVersion: version, APIResources: list}
	}
	answers := map[string]any{
		"/api":  metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "example.com/v2", Version: "v2"}}, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v2", Version: "v2"}}}},
		"/api/v1": resources("v1",
			metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
			metav1.APIResource{Name: "events", Kind: "Event", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
			metav1.APIResource{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		),
		"/apis/example.com/v2":        resources("example.com/v2", metav1.APIResource{Name: "things", Kind: "Thing", Verbs: metav1.Verbs{"list"}}),
		"/api/v1/secrets":             objects(object("ns", "a", "u1"), object("ns", "b", "u2")),
		"/api/v1/events":              objects(object("ns", "e", "u3")),
		"/apis/example.com/v2/things": objects(object("", "t", "u4")),
	}
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known || r.URL.Path == broken {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client may have disconnected
	}))
	t.Cleanup(listening.Close)
	return &rest.Config{Host: listening.URL}
}

func object(namespace, name string, uid types.UID) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, CreationTimestamp: metav1.NewTime(noon())}}
}

func objects(items ...metav1.PartialObjectMetadata) metav1.PartialObjectMetadataList {
	return metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: items}
}

func TestTake_ListsAllObjects(t *testing.T) {
	got, err := Take(t.Context(), server(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	want := Inventory{
		{"secrets", "ns", "a", "u1"}: noon(), {"secrets", "ns", "b", "u2"}: noon(), {"things.example.com", "", "t", "u4"}: noon(),
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestTake_FailsIfAnyListFails(t *testing.T) {
	for what, test := range map[string]struct{ broken, says string }{
		"discovery fails": {"/apis/example.com/v2", "discovering the resources: "},
		"list fails":      {"/api/v1/secrets", "listing secrets: "},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := Take(t.Context(), server(t, test.broken))
			if err == nil || !strings.HasPrefix(err.Error(), test.says) {
				t.Errorf("got error %v, want prefix %q", err, test.says)
			}
		})
	}
}

func TestDiffers_NamesMissingAndAdditionalObjects(t *testing.T) {
	a, b, remade := Object{"secrets", "ns", "a", "u1"}, Object{"secrets", "ns", "b", "u2"}, Object{"secrets", "ns", "a", "u9"}
	tests := map[string]struct {
		before, after Inventory
		want          []string
	}{
		"equal":                {Inventory{a: noon(), b: noon()}, Inventory{b: noon(), a: noon()}, nil},
		"one object removed":   {Inventory{a: noon(), b: noon()}, Inventory{b: noon()}, []string{"- secrets ns/a (u1)"}},
		"one object added":     {Inventory{a: noon()}, Inventory{a: noon(), b: noon()}, []string{"+ secrets ns/b (u2)"}},
		"one object recreated": {Inventory{a: noon()}, Inventory{remade: noon()}, []string{"+ secrets ns/a (u9)", "- secrets ns/a (u1)"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.before.Differs(test.after)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithout_ReturnsACopy(t *testing.T) {
	all := Inventory{{"contents", "", "old", "u1"}: noon(), {"contents", "", "new", "u2"}: noon().Add(time.Hour), {"secrets", "", "new", "u3"}: noon().Add(time.Hour)}
	young := func(o Object, made time.Time) bool { return o.Resource == "contents" && made.After(noon()) }
	want := Inventory{{"contents", "", "old", "u1"}: noon(), {"secrets", "", "new", "u3"}: noon().Add(time.Hour)}
	if diff := cmp.Diff(want, all.Without(young)); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	if len(all) != 3 {
		t.Error("the original inventory has changed")
	}
}

func TestLacking_NamesMissingDefaultObjects(t *testing.T) {
	namespace := Object{Resource: "namespaces", Name: "a", UID: "u1"}
	account := Object{Resource: "serviceaccounts", Namespace: "a", Name: "default", UID: "u2"}
	authority := Object{Resource: "configmaps", Namespace: "a", Name: "kube-root-ca.crt", UID: "u3"}
	tests := map[string]struct {
		there []Object
		want  []Object
	}{
		"no namespace":                         {there: []Object{account}},
		"complete namespace":                   {there: []Object{namespace, account, authority}},
		"namespace without its ServiceAccount": {there: []Object{namespace, authority}, want: []Object{{Resource: "serviceaccounts", Namespace: "a", Name: "default"}}},
		"namespace without the CA":             {there: []Object{namespace, account}, want: []Object{{Resource: "configmaps", Namespace: "a", Name: "kube-root-ca.crt"}}},
		"ServiceAccount of another namespace":  {there: []Object{namespace, authority, {Resource: "serviceaccounts", Namespace: "b", Name: "default"}}, want: []Object{{Resource: "serviceaccounts", Namespace: "a", Name: "default"}}},
		"Secret with the same name":            {there: []Object{{Resource: "secrets", Name: "a"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			taken := Inventory{}
			for _, object := range test.there {
				taken[object] = noon()
			}
			if diff := cmp.Diff(test.want, taken.Lacking()); diff != "" {
				t.Errorf("lacking (-want +got):\n%s", diff)
			}
		})
	}
}
