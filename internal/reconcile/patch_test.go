package reconcile

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func oneCluster(changes ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c", UID: "u1", ResourceVersion: "7"},
		Status: fleet.ClusterStatus{Conditions: []genericcondition.GenericCondition{
			{Type: "Ready", Status: corev1.ConditionTrue, LastUpdateTime: "2026-11-21T07:43:36Z"},
		}},
	}
	c.Status.Summary = fleet.BundleSummary{DesiredReady: 4, Ready: 2}
	for _, change := range changes {
		change(c)
	}
	return c
}

func processed(c *fleet.Cluster) {
	fleet.SetCondition(&c.Status.Conditions, time.Unix(0, 0), genericcondition.GenericCondition{Type: "Processed", Status: corev1.ConditionTrue})
}

// withoutStatus is a Cluster that nobody has said anything about.
func withoutStatus(c *fleet.Cluster) { c.Status = fleet.ClusterStatus{} }

func TestTheFirstStatusIsSentWhole(t *testing.T) {
	w := newWorld()
	read := oneCluster(withoutStatus)
	w.put(t, true, oneCluster(withoutStatus))
	if _, err := PatchStatus(w.clusters, read, func(c *fleet.Cluster) { c.Status.Summary.DesiredReady = 1 }); err != nil {
		t.Fatal(err)
	}
	want := []string{`patch Cluster fleet-default/c status {"metadata":{"resourceVersion":"7"},"status":{` +
		`"agent":{"lastSeen":null,"namespace":""},"desiredReadyGitRepos":0,"desiredReadyHelmOps":0,"display":{},"readyGitRepos":0,"readyHelmOps":0,` +
		`"resourceCounts":{"desiredReady":0,"missing":0,"modified":0,"notReady":0,"orphaned":0,"ready":0,"unknown":0,"waitApplied":0},` +
		`"summary":{"desiredReady":1,"ready":0}}}`}
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
}

func TestPatches(t *testing.T) {
	tests := map[string]struct {
		status bool
		change func(*fleet.Cluster)
		want   []string
	}{
		"nothing altered, nothing sent": {
			status: true, change: func(*fleet.Cluster) {},
		},
		"a scalar of the status goes alone, whoever wrote since": {
			status: true, change: func(c *fleet.Cluster) { c.Status.Namespace = "n" },
			want: []string{`patch Cluster fleet-default/c status {"status":{"namespace":"n"}}`},
		},
		"counts that were all zero go together": {
			status: true, change: func(c *fleet.Cluster) { c.Status.ResourceCounts = fleet.ResourceCounts{DesiredReady: 2, Ready: 2} },
			want: []string{`patch Cluster fleet-default/c status {"status":{"resourceCounts":` +
				`{"desiredReady":2,"missing":0,"modified":0,"notReady":0,"orphaned":0,"ready":2,"unknown":0,"waitApplied":0}}}`},
		},
		"a count among others goes alone": {
			status: true, change: func(c *fleet.Cluster) { c.Status.Summary.Ready = 3 },
			want: []string{`patch Cluster fleet-default/c status {"status":{"summary":{"ready":3}}}`},
		},
		"a list of the status goes only if nobody wrote since": {
			status: true, change: processed,
			want: []string{`patch Cluster fleet-default/c status {"metadata":{"resourceVersion":"7"},"status":{"conditions":[` +
				`{"lastUpdateTime":"2026-11-21T07:43:36Z","status":"True","type":"Ready"},` +
				`{"lastUpdateTime":"1970-01-01T00:00:00Z","status":"True","type":"Processed"}]}}`},
		},
		"a status patch carries nothing but the status": {
			status: true, change: func(c *fleet.Cluster) { c.Spec.ClientID = "x" },
		},
		"a field of the spec goes only if nobody wrote since": {
			change: func(c *fleet.Cluster) { c.Spec.ClientID = "x" },
			want:   []string{`patch Cluster fleet-default/c {"metadata":{"resourceVersion":"7"},"spec":{"clientID":"x"}}`},
		},
		"a finalizer goes only if nobody wrote since": {
			change: func(c *fleet.Cluster) { c.Finalizers = append(c.Finalizers, "f") },
			want:   []string{`patch Cluster fleet-default/c {"metadata":{"finalizers":["f"],"resourceVersion":"7"}}`},
		},
		"a patch of the object leaves the status alone": {
			change: func(c *fleet.Cluster) { c.Status.Namespace = "n" },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			read := oneCluster()
			w.put(t, true, oneCluster())
			patch := Patch[*fleet.Cluster]
			if test.status {
				patch = PatchStatus[*fleet.Cluster]
			}
			got, err := patch(w.clusters, read, test.change)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, w.requests); diff != "" {
				t.Errorf("the requests differ (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(oneCluster(), read); diff != "" {
				t.Errorf("what was read was altered:\n%s", diff)
			}
			want := any(read)
			if len(test.want) > 0 {
				want = w.objects["Cluster fleet-default/c"]
			}
			if diff := cmp.Diff(want, any(got)); diff != "" {
				t.Errorf("not what is there now (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatchMeetsOthers(t *testing.T) {
	version := 8
	tests := map[string]struct {
		there    *fleet.Cluster            // on the server; nil: nothing
		prepare  func(*testing.T, *world)  // may be nil
		expect   func(*fleet.Cluster) bool // of what is there afterwards; may be nil
		requests int
		err      string
	}{
		"what somebody else wrote in between stays": {
			there:    oneCluster(func(c *fleet.Cluster) { c.ResourceVersion, c.Status.Conditions[0].Status = "8", corev1.ConditionFalse }),
			requests: 3, // refused, read again, written
			expect: func(c *fleet.Cluster) bool {
				return len(c.Status.Conditions) == 2 && c.Status.Conditions[0].Status == corev1.ConditionFalse
			},
		},
		"what somebody else has already done is not done again": {
			there:    oneCluster(processed, func(c *fleet.Cluster) { c.ResourceVersion = "8" }),
			requests: 2, // refused, read again
			expect:   func(c *fleet.Cluster) bool { return len(c.Status.Conditions) == 2 },
		},
		"a writer who never rests is told of in the end": {
			there: oneCluster(),
			prepare: func(t *testing.T, w *world) {
				w.interfere = func() {
					version++
					w.put(t, true, oneCluster(func(c *fleet.Cluster) { c.ResourceVersion = strconv.Itoa(version) }))
				}
			},
			requests: 2*patchAttempts - 1,
			err:      `patching fleet-default/c: Operation cannot be fulfilled on Cluster.fleet.cattle.io "c": it is 13 now`,
		},
		"a status of what is gone need not be written": {requests: 1},
		"an object that replaced ours is not reported about": {
			there:    oneCluster(func(c *fleet.Cluster) { c.UID, c.ResourceVersion = "u2", "8" }),
			requests: 2,
			expect:   func(c *fleet.Cluster) bool { return len(c.Status.Conditions) == 1 },
		},
		"an answer that is an error is told": {
			there: oneCluster(),
			prepare: func(_ *testing.T, w *world) {
				w.fail["patch Cluster fleet-default/c"] = errors.New("no")
			},
			requests: 1,
			err:      "patching fleet-default/c: no",
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
			_, err := PatchStatus(w.clusters, oneCluster(), processed)
			if got := text(errText(err), ""); got != test.err {
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
