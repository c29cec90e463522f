package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
)

func TestSortForInstall(t *testing.T) {
	var objects []*unstructured.Unstructured
	for _, name := range []string{"Zebra/1", "Deployment/1", "Namespace/1", "Aardvark/1", "ConfigMap/2", "ConfigMap/1", "NetworkPolicy/1", "APIService/1", "Secret/1"} {
		kind, number, _ := strings.Cut(name, "/")
		object := &unstructured.Unstructured{}
		object.SetKind(kind)
		object.SetName(number)
		objects = append(objects, object)
	}
	SortForInstall(objects)
	var got []string
	for _, object := range objects {
		got = append(got, object.GetKind()+"/"+object.GetName())
	}
	want := []string{"Namespace/1", "NetworkPolicy/1", "Secret/1", "ConfigMap/2", "ConfigMap/1", "Deployment/1", "APIService/1", "Aardvark/1", "Zebra/1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseObjects(f *testing.F) {
	f.Add([]byte(deploytest.ConfigMapYAML))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{}]"))
	f.Add([]byte("--- a\n---\n{"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := Parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), "YAML parse error") {
				t.Errorf("not recognised: %v", err)
			}
			return
		}
		formatted, err := Format(objects)
		if err != nil {
			return
		}
		again, err := Parse(formatted)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, formatted)
		}
		if len(again) != len(objects) {
			t.Errorf("%d objects became %d:\n%s", len(objects), len(again), formatted)
		}
	})
}

func TestSurplus(t *testing.T) {
	ref := func(group, version, kind, name string) Ref {
		return Ref{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, "ns", name}
	}
	elsewhere := ref("", "v1", "ConfigMap", "a")
	elsewhere.Namespace = "other"
	former := []Ref{
		ref("", "v1", "ConfigMap", "a"), ref("", "v1", "ConfigMap", "b"), ref("autoscaling", "v1", "HorizontalPodAutoscaler", "h"),
		ref("", "v1", "Secret", "a"), elsewhere,
	}
	now := []Ref{ref("", "v1", "ConfigMap", "a"), ref("autoscaling", "v2", "HorizontalPodAutoscaler", "h"), ref("", "v1", "ConfigMap", "c")}
	want := []Ref{ref("", "v1", "ConfigMap", "b"), ref("", "v1", "Secret", "a"), elsewhere}
	if diff := cmp.Diff(want, Surplus(former, now)); diff != "" {
		t.Error(diff)
	}
	if got := Surplus(nil, now); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestContainsAny(t *testing.T) {
	text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: other}\n" +
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: role}\n" +
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n"
	ref := func(group, version, kind, namespace, name string) Ref {
		return Ref{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Namespace: namespace, Name: name}
	}
	tests := map[string]struct {
		text string
		ref  Ref
		want bool
	}{
		"namespace of the release":           {text, ref("apps", "v1", "Deployment", "home", "web"), true},
		"another version of the kind":        {text, ref("apps", "v2", "Deployment", "home", "web"), true},
		"the same name in another namespace": {text, ref("apps", "v1", "Deployment", "other", "web"), false},
		"another kind":                       {text, ref("apps", "v1", "StatefulSet", "home", "web"), false},
		"own namespace":                      {text, ref("", "v1", "Secret", "other", "s"), true},
		"not in its own namespace":           {text, ref("", "v1", "Secret", "home", "s"), false},
		"cluster-scoped object":              {text, ref("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "role"), true},
		"a Namespace only":                   {text, ref("", "v1", "Namespace", "", "n"), false},
		"unreadable manifest":                {"a: [", ref("apps", "v1", "Deployment", "home", "web"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ContainsAny(test.text, "home", []Ref{ref("", "v1", "Namespace", "", "n"), test.ref}); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
