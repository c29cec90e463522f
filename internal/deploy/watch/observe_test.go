package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestObserve(t *testing.T) {
	const hash = "h1"
	always := fleet.ResourceSummary{State: "active", Message: []string{"Resource is always ready"}}
	tests := map[string]struct {
		object  string
		ignored []map[string]string
		want    observation
	}{
		"a ConfigMap": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, uid: u, resourceVersion: '7', labels: {objectset.rio.cattle.io/hash: h1}}\n",
			want: observation{Exists: true, Owned: true, UID: "u", ResourceVersion: "7", Summary: always}},
		"label of another set": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {objectset.rio.cattle.io/hash: h2}}\n",
			want: observation{Exists: true, Summary: always}},
		"no label": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			want: observation{Exists: true, Summary: always}},
		"a condition in error": {object: "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False', message: not yet}, {type: Stalled, status: 'True', message: stuck}]}\n",
			want: observation{Exists: true, Summary: fleet.ResourceSummary{State: "error", Error: true, Message: []string{"stuck"}}}},
		"ignored condition in error": {object: "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False', message: not yet}, {type: Stalled, status: 'True'}]}\n",
			ignored: []map[string]string{{"type": "Ready", "status": "False"}, {"type": "Stalled"}},
			want:    observation{Exists: true, Summary: fleet.ResourceSummary{State: "active", Message: []string{"Resource is current"}}}},
		"condition that matches an ignored one only in part": {object: "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False', message: not yet}]}\n",
			ignored: []map[string]string{{"type": "Ready", "status": "Unknown"}, {}},
			want:    observation{Exists: true, Summary: fleet.ResourceSummary{State: "unavailable", Transitioning: true, Message: []string{"not yet"}}}},
		"terminating": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, deletionTimestamp: '2026-11-21T12:00:00Z', finalizers: [x.io/wait]}\n",
			want: observation{Exists: true, Summary: fleet.ResourceSummary{State: "removing", Transitioning: true, Message: []string{"Resource scheduled for deletion"}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := deploytest.ObjectOf(t, test.object)
			before := object.DeepCopy()
			got := observe(object, hash, test.ignored)
			got.Content = 0 // see TestContentHash_IgnoresStatus
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}
