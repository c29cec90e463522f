package reconcile

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
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
	conditions.Set(&c.Status.Conditions, time.Unix(0, 0), genericcondition.GenericCondition{Type: "Processed", Status: corev1.ConditionTrue})
}

// withoutStatus is a Cluster that nobody has said anything about.
func withoutStatus(c *fleet.Cluster) { c.Status = fleet.ClusterStatus{} }

func TestPatchAndUpdate_SendOnlyChanges(t *testing.T) {
	tests := map[string]struct {
		update bool
		change func(*fleet.Cluster)
		want   []string
	}{
		"patch, no change: no request": {
			change: func(*fleet.Cluster) {},
		},
		"patch of the spec: only for the version that was read": {
			change: func(c *fleet.Cluster) { c.Spec.ClientID = "x" },
			want:   []string{`patch Cluster fleet-default/c {"metadata":{"resourceVersion":"7"},"spec":{"clientID":"x"}}`},
		},
		"patch of finalizers: only for the version that was read": {
			change: func(c *fleet.Cluster) { c.Finalizers = append(c.Finalizers, "f") },
			want:   []string{`patch Cluster fleet-default/c {"metadata":{"finalizers":["f"],"resourceVersion":"7"}}`},
		},
		"patch, changed status: no request": {
			change: func(c *fleet.Cluster) { c.Status.Namespace = "n" },
		},
		"update, no change: no request": {
			update: true, change: func(*fleet.Cluster) {},
		},
		"update: whole object, managed fields are removed": {
			update: true, change: func(c *fleet.Cluster) { c.Spec.ClientID = "x" },
			want: []string{"update Cluster fleet-default/c " + encoded(t, oneCluster(func(c *fleet.Cluster) {
				c.Spec.ClientID, c.ManagedFields = "x", []metav1.ManagedFieldsEntry{{}}
			}))},
		},
		"update, changed status: no request": {
			update: true, change: func(c *fleet.Cluster) { c.Status.Namespace = "n" },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			read := oneCluster()
			w.put(t, true, oneCluster())
			var got *fleet.Cluster
			var err error
			if test.update {
				got, err = Update(w.clusters, read, test.change)
			} else {
				got, err = Patch(w.clusters, read, test.change)
			}
			if err != nil {
				t.Fatal(err)
			}
			expectWritten(t, w, read, got, test.want)
		})
	}
}

// expectWritten checks that these requests were made, that what was read is as it was, and that what is there now was
// returned.
func expectWritten(t *testing.T, w *world, read, got *fleet.Cluster, requests []string) {
	t.Helper()
	if diff := cmp.Diff(requests, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(oneCluster(), read); diff != "" {
		t.Errorf("what was read was altered:\n%s", diff)
	}
	want := any(read)
	if len(requests) > 0 {
		want = w.objects["Cluster fleet-default/c"]
	}
	if diff := cmp.Diff(want, any(got)); diff != "" {
		t.Errorf("not what is there now (-want +got):\n%s", diff)
	}
}

func encoded(t *testing.T, obj any) string {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
