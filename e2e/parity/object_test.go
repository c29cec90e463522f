package parity_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/parity"
)

// on returns an object of a cluster from YAML.
func on(t *testing.T, cluster, text string) parity.Object {
	t.Helper()
	return parity.Object{Cluster: cluster, Fields: parsed(t, text)}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestLoad_ReadsTheClustersObjects(t *testing.T) {
	files := fstest.MapFS{
		"hub/secrets.yaml":  {Data: []byte("kind: Secret\nmetadata: {name: one, namespace: a}\n---\nkind: Secret\nmetadata: {name: two, namespace: b}\n")},
		"hub/roles.yaml":    {Data: []byte("kind: ClusterRole\nmetadata: {name: r}\n")},
		"hub/README.md":     {Data: []byte("not: an object")},
		"east/leases.yaml":  {Data: []byte("kind: Lease\nmetadata: {name: l, namespace: ns}\n")},
		"other/leases.yaml": {Data: []byte("kind: Lease\nmetadata: {name: l, namespace: ns}\n")},
	}
	objects, err := parity.Load(files, "hub", "east")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.String())
	}
	want := []string{"hub ClusterRole /r", "hub Secret a/one", "hub Secret b/two", "east Lease ns/l"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadInvalidFile_NamesTheFile(t *testing.T) {
	_, err := parity.Load(fstest.MapFS{"hub/x.yaml": {Data: []byte("- a\n- b\n")}}, "hub")
	if err == nil || !strings.Contains(err.Error(), "hub/x.yaml") {
		t.Errorf("%v does not name the file", err)
	}
}

func TestLive_HasTheRecordedForm(t *testing.T) {
	tests := map[string]struct{ is, want string }{
		"fields of the API server: removed": {
			is:   "{kind: Lease, metadata: {name: l, uid: u, resourceVersion: '7', generation: 2, creationTimestamp: '2026-01-01T00:00:00Z', managedFields: [{manager: m}]}}",
			want: "{kind: Lease, metadata: {name: l, uid: u}}",
		},
		"Secret data: decoded": {
			is:   "{kind: Secret, type: Opaque, data: {a: aGVsbG8=, b: ''}}",
			want: "{kind: Secret, type: Opaque, decodedData: {a: hello, b: ''}}",
		},
		"invalid base64: kept": {
			is:   "{kind: Secret, data: {a: 'no base64'}}",
			want: "{kind: Secret, decodedData: {a: 'no base64'}}",
		},
		"Helm release: replaced by a note": {
			is:   "{kind: Secret, type: helm.sh/release.v1, data: {release: aGVsbG8=}}",
			want: "{kind: Secret, type: helm.sh/release.v1, decodedData: {release: <release>}}",
		},
		"ConfigMap data: unchanged": {
			is:   "{kind: ConfigMap, data: {a: aGVsbG8=}}",
			want: "{kind: ConfigMap, data: {a: aGVsbG8=}}",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			is := &unstructured.Unstructured{Object: parsed(t, test.is)}
			got := parity.Live("hub", is)
			if diff := cmp.Diff(on(t, "hub", test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parsed(t, test.is), is.Object); diff != "" {
				t.Errorf("the original object was changed:\n%s", diff)
			}
		})
	}
}
