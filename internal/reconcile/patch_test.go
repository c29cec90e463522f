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
	for _, change := range changes {
		change(c)
	}
	return c
}

func processed(c *fleet.Cluster) {
	fleet.SetCondition(&c.Status.Conditions, time.Unix(0, 0), genericcondition.GenericCondition{Type: "Processed", Status: corev1.ConditionTrue})
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
	t.Run("what somebody else wrote in between stays", func(t *testing.T) {
		w := newWorld()
		w.put(t, true, oneCluster(func(c *fleet.Cluster) {
			c.ResourceVersion = "8"
			c.Status.Conditions[0].Status = corev1.ConditionFalse
		}))
		got, err := PatchStatus(w.clusters, oneCluster(), processed)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Status.Conditions) != 2 || got.Status.Conditions[0].Status != corev1.ConditionFalse {
			t.Errorf("conditions are %v", got.Status.Conditions)
		}
	})
	t.Run("what somebody else has already done is not done again", func(t *testing.T) {
		w := newWorld()
		w.put(t, true, oneCluster(processed, func(c *fleet.Cluster) { c.ResourceVersion = "8" }))
		if _, err := PatchStatus(w.clusters, oneCluster(), processed); err != nil {
			t.Fatal(err)
		}
		if len(w.requests) != 2 {
			t.Errorf("want one refused patch and one get, got %v", w.requests)
		}
	})
	t.Run("a writer who never rests is told of in the end", func(t *testing.T) {
		w := newWorld()
		version := 8
		w.put(t, true, oneCluster())
		w.interfere = func() {
			version++
			w.put(t, true, oneCluster(func(c *fleet.Cluster) { c.ResourceVersion = strconv.Itoa(version) }))
		}
		_, err := PatchStatus(w.clusters, oneCluster(), processed)
		if err == nil {
			t.Fatal("want an error")
		}
		if patches := (len(w.requests) + 1) / 2; patches != patchAttempts {
			t.Errorf("%d attempts, want %d", patches, patchAttempts)
		}
	})
	t.Run("a status of what is gone need not be written", func(t *testing.T) {
		w := newWorld()
		if _, err := PatchStatus(w.clusters, oneCluster(), processed); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an object that replaced ours is not reported about", func(t *testing.T) {
		w := newWorld()
		w.put(t, true, oneCluster(func(c *fleet.Cluster) { c.UID, c.ResourceVersion = "u2", "8" }))
		if _, err := PatchStatus(w.clusters, oneCluster(), processed); err != nil {
			t.Fatal(err)
		}
		if found := w.objects["Cluster fleet-default/c"].(*fleet.Cluster); len(found.Status.Conditions) != 1 {
			t.Errorf("the other's conditions became %v", found.Status.Conditions)
		}
	})
	t.Run("an answer that is an error is told", func(t *testing.T) {
		w := newWorld()
		w.put(t, true, oneCluster())
		w.fail["patch Cluster fleet-default/c"] = errors.New("no")
		_, err := PatchStatus(w.clusters, oneCluster(), processed)
		if err == nil || err.Error() != "patching fleet-default/c: no" {
			t.Errorf("error %v", err)
		}
	})
}
