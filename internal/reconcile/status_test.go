package reconcile

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// updated is the request that updates the status of oneCluster to one of these conditions, namespace and summary.
func updated(conditions, namespace, summary string) string {
	return `update Cluster fleet-default/c status {"metadata":{"name":"c","namespace":"fleet-default","uid":"u1","resourceVersion":"7"},` +
		`"spec":{},"status":{` + conditions + namespace + `"summary":` + summary + `,"resourceCounts":{"ready":0,"desiredReady":0,` +
		`"waitApplied":0,"modified":0,"orphaned":0,"missing":0,"unknown":0,"notReady":0},"readyGitRepos":0,"desiredReadyGitRepos":0,` +
		`"readyHelmOps":0,"desiredReadyHelmOps":0,"display":{},"agent":{"lastSeen":null,"namespace":""}}}`
}

func TestWriteStatus(t *testing.T) {
	const (
		ready        = `"conditions":[{"type":"Ready","status":"True","lastUpdateTime":"2026-11-21T07:43:36Z"}],`
		andProcessed = `"conditions":[{"type":"Ready","status":"True","lastUpdateTime":"2026-11-21T07:43:36Z"},` +
			`{"type":"Processed","status":"True","lastUpdateTime":"1970-01-01T00:00:00Z"}],`
		half = `{"ready":2,"desiredReady":4}`
	)
	tests := map[string]struct {
		change func(*fleet.Cluster)
		want   []string
	}{
		"no change: no request": {change: func(*fleet.Cluster) {}},
		"changed field: the whole status is sent": {
			change: func(c *fleet.Cluster) { c.Status.Namespace = "n" },
			want:   []string{updated(ready, `"namespace":"n",`, half)},
		},
		"changed list: the whole status is sent": {change: processed, want: []string{updated(andProcessed, "", half)}},
		"changed spec: no request": {
			change: func(c *fleet.Cluster) { c.Spec.ClientID = "x" },
		},
		"changed spec and status: only the status is sent": {
			change: func(c *fleet.Cluster) {
				c.Spec.ClientID, c.Labels, c.Status.Summary.Ready = "x", map[string]string{"a": "b"}, 3
			},
			want: []string{updated(ready, "", `{"ready":3,"desiredReady":4}`)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			read := oneCluster()
			w.put(t, true, oneCluster())
			got, err := WriteStatus(w.clusters, read, test.change)
			if err != nil {
				t.Fatal(err)
			}
			expectWritten(t, w, read, got, test.want)
		})
	}
}

func TestPatchStatus(t *testing.T) {
	namespace := func(c *fleet.Cluster) { c.Status.Namespace = "n" }
	patched := func(version string) string {
		return `patch Cluster fleet-default/c status {"metadata":{"resourceVersion":"` + version + `"},"status":{"namespace":"n"}}`
	}
	tests := map[string]struct {
		there  *fleet.Cluster
		change func(*fleet.Cluster)
		want   []string
	}{
		"no change: no request":                    {oneCluster(), func(*fleet.Cluster) {}, nil},
		"changed field: only that field is sent":   {oneCluster(), namespace, []string{patched("7")}},
		"changed spec and status: only the status": {oneCluster(), func(c *fleet.Cluster) { c.Spec.ClientID = "x" }, nil},
		"newer status: read again":                 {oneCluster(func(c *fleet.Cluster) { c.ResourceVersion = "8" }), namespace, []string{patched("7"), "get Cluster fleet-default/c", patched("8")}},
		"deleted object":                           {nil, namespace, []string{patched("7")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if test.there != nil {
				w.put(t, true, test.there)
			}
			got, err := PatchStatus(w.clusters, oneCluster(), test.change)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, w.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if written := len(test.want) > 0 && test.there != nil; written != (got.Status.Namespace == "n") {
				t.Errorf("status is %+v", got.Status)
			}
		})
	}
}

// Kubernetes 1.31 removes a user's server-side apply from the managers of metadata that are missing in the update.
func TestWriteStatus_SendsTheMetadata(t *testing.T) {
	w := newWorld()
	labeled := func(c *fleet.Cluster) {
		c.Labels, c.Annotations, c.Finalizers = map[string]string{"env": "dev"}, map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "{}"}, []string{"example.com/kept"}
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "user"}}
	}
	read := oneCluster(labeled)
	w.put(t, true, oneCluster(labeled))
	if _, err := WriteStatus(w.clusters, read, func(c *fleet.Cluster) { c.Status.Summary.Ready = 3 }); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(updated(`"conditions":[{"type":"Ready","status":"True","lastUpdateTime":"2026-11-21T07:43:36Z"}],`, "",
		`{"ready":3,"desiredReady":4}`), `"resourceVersion":"7"`, `"resourceVersion":"7","labels":{"env":"dev"},"annotations":{"a":"b"},"finalizers":["example.com/kept"]`, 1)
	if diff := cmp.Diff([]string{want}, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
}

func TestWriteStatus_SendsTheWholeFirstStatus(t *testing.T) {
	w := newWorld()
	read := oneCluster(withoutStatus)
	w.put(t, true, oneCluster(withoutStatus))
	if _, err := WriteStatus(w.clusters, read, func(c *fleet.Cluster) { c.Status.Summary.DesiredReady = 1 }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{updated("", "", `{"ready":0,"desiredReady":1}`)}, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
}

func TestWriteStatus_RetriesAfterConflicts(t *testing.T) {
	version := 8
	tests := map[string]struct {
		there    *fleet.Cluster            // on the server; nil: nothing
		read     *fleet.Cluster            // nil: one with a condition
		change   func(*fleet.Cluster)      // nil: a condition more, which replaces a list
		prepare  func(*testing.T, *world)  // may be nil
		expect   func(*fleet.Cluster) bool // of what is there afterwards; may be nil
		requests int
		err      string
	}{
		"status of another writer stays": {
			there:    oneCluster(func(c *fleet.Cluster) { c.ResourceVersion, c.Status.Conditions[0].Status = "8", corev1.ConditionFalse }),
			requests: 3, // refused, read again, written
			expect: func(c *fleet.Cluster) bool {
				return len(c.Status.Conditions) == 2 && c.Status.Conditions[0].Status == corev1.ConditionFalse
			},
		},
		"another writer has made the change: no request": {
			there:    oneCluster(processed, func(c *fleet.Cluster) { c.ResourceVersion = "8" }),
			requests: 2, // refused, read again
			expect:   func(c *fleet.Cluster) bool { return len(c.Status.Conditions) == 2 },
		},
		"conflicts without end: an error": {
			there: oneCluster(),
			prepare: func(t *testing.T, w *world) {
				w.interfere = func() {
					version++
					w.put(t, true, oneCluster(func(c *fleet.Cluster) { c.ResourceVersion = strconv.Itoa(version) }))
				}
			},
			requests: 2*writeAttempts - 1,
			err:      `writing fleet-default/c: Operation cannot be fulfilled on Cluster.fleet.cattle.io "c": it is 13 now`,
		},
		"other fields stay": {
			there:    oneCluster(func(c *fleet.Cluster) { c.ResourceVersion, c.Status.Conditions[0].Status = "8", corev1.ConditionFalse }),
			change:   func(c *fleet.Cluster) { c.Status.Namespace = "n" },
			requests: 3,
			expect: func(c *fleet.Cluster) bool {
				return c.Status.Namespace == "n" && c.Status.Conditions[0].Status == corev1.ConditionFalse
			},
		},
		"first status does not overwrite another one": {
			there:    oneCluster(func(c *fleet.Cluster) { c.ResourceVersion = "8" }),
			read:     oneCluster(withoutStatus),
			change:   func(c *fleet.Cluster) { c.Status.Summary.Ready++ },
			requests: 3,
			expect:   func(c *fleet.Cluster) bool { return c.Status.Summary.Ready == 3 },
		},
		"object was replaced: not written": {
			there:    oneCluster(func(c *fleet.Cluster) { c.UID, c.ResourceVersion = "u2", "8" }),
			change:   func(c *fleet.Cluster) { c.Status.Namespace = "n" },
			requests: 2,
			expect:   func(c *fleet.Cluster) bool { return c.Status.Namespace == "" },
		},
		"object was deleted: success": {requests: 1},
		"object was replaced: success": {
			there:    oneCluster(func(c *fleet.Cluster) { c.UID, c.ResourceVersion = "u2", "8" }),
			requests: 2,
			expect:   func(c *fleet.Cluster) bool { return len(c.Status.Conditions) == 1 },
		},
		"failed request: an error": {
			there: oneCluster(),
			prepare: func(_ *testing.T, w *world) {
				w.fail["update Cluster fleet-default/c"] = errors.New("no")
			},
			requests: 1,
			err:      "writing fleet-default/c: no",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if test.there != nil {
				w.put(t, true, test.there)
			}
			if test.prepare != nil {
				test.prepare(t, w)
			}
			read, change := oneCluster(), processed
			if test.read != nil {
				read = test.read
			}
			if test.change != nil {
				change = test.change
			}
			_, err := WriteStatus(w.clusters, read, change)
			if got := errText(err); got != test.err {
				t.Errorf("error %q, want %q", got, test.err)
			}
			if len(w.requests) != test.requests {
				t.Errorf("the requests are %v", w.requests)
			}
			if test.expect == nil {
				return
			}
			if found, ok := w.objects["Cluster fleet-default/c"].(*fleet.Cluster); !ok || !test.expect(found) {
				t.Errorf("the Cluster is %+v", found)
			}
		})
	}
}
