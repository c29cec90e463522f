package hub

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// clusters is the API server for one Cluster.
type clusters struct {
	live *fleet.Cluster
	// fails are the errors of the next writes. Later writes succeed.
	fails []error
}

func (c *clusters) Get(string, string, metav1.GetOptions) (*fleet.Cluster, error) { return c.live, nil }

func (c *clusters) UpdateStatus(*fleet.Cluster) (*fleet.Cluster, error) {
	if len(c.fails) > 0 {
		err := c.fails[0]
		c.fails = c.fails[1:]
		return nil, err
	}
	return c.live, nil
}

// withCondition returns a Cluster with condition Imported, or without conditions if status is empty.
func withCondition(status corev1.ConditionStatus, reason, message string) *fleet.Cluster {
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", UID: "u1"}}
	if status != "" {
		cluster.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: status, Reason: reason, Message: message}}
	}
	return cluster
}

func TestReport_RecordsANewProblemOnce(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "c1", errors.New("written meanwhile"))
	broken := errors.New("broken")
	tests := map[string]struct {
		read, live *fleet.Cluster
		set        genericcondition.GenericCondition
		fails      []error
		want       []string
		err        error
	}{
		"first problem: reported": {
			read: withCondition("", "", ""), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
			want: []string{"Warning Lost look for it"},
		},
		"problem after a time without: reported": {
			read: withCondition("True", "", ""), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
			want: []string{"Warning Lost look for it"},
		},
		"another problem: reported": {
			read: withCondition("False", "Broken", "mend it"), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
			want: []string{"Warning Lost look for it"},
		},
		"problem after a wait: reported": {
			read: withCondition("False", "AwaitingRights", "soon"), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
			want: []string{"Warning Lost look for it"},
		},
		"same problem: not reported": {
			read: withCondition("False", "Lost", "look for it"), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
		},
		"same reason, another message: not reported": {
			read: withCondition("False", "Lost", "look"), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
		},
		"wait: not reported": {
			read: withCondition("", "", ""), set: genericcondition.GenericCondition{Status: "False", Reason: "AwaitingRights", Message: "soon"},
		},
		"no reason: not reported": {
			read: withCondition("", "", ""), set: genericcondition.GenericCondition{Status: "False", Message: "1/2"},
		},
		"success: not reported": {
			read: withCondition("False", "Lost", "look for it"), set: genericcondition.GenericCondition{Status: "True"},
		},
		"failed write: not reported, it is retried": {
			read: withCondition("", "", ""), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
			fails: []error{broken}, err: broken,
		},
		"second attempt: reported once": {
			read: withCondition("", "", ""), live: withCondition("True", "", ""), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
			fails: []error{conflict}, want: []string{"Warning Lost look for it"},
		},
		"written already, cache is behind: not reported": {
			read: withCondition("", "", ""), live: withCondition("False", "Lost", "look for it"), set: genericcondition.GenericCondition{Status: "False", Reason: "Lost", Message: "look for it"},
			fails: []error{conflict},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := record.NewFakeRecorder(10)
			server := &clusters{live: test.live, fails: test.fails}
			if server.live == nil {
				server.live = test.read
			}
			test.set.Type = conditions.Imported
			_, err := Report(&App{Recorder: recorder, OwnClock: func() time.Time { return time.Unix(0, 0) }}, server, test.read, func(c *fleet.Cluster) {
				c.Status.Conditions = []genericcondition.GenericCondition{test.set}
			})
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			close(recorder.Events)
			var got []string
			for event := range recorder.Events {
				got = append(got, event)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReport_CoversEveryKind(t *testing.T) {
	trouble := []genericcondition.GenericCondition{{Type: "Any", Status: "False", Reason: "Lost"}}
	for _, object := range []reconcile.Object{
		&fleet.Cluster{Status: fleet.ClusterStatus{Conditions: trouble}},
		&fleet.ClusterGroup{Status: fleet.ClusterGroupStatus{Conditions: trouble}},
		&fleet.ClusterRegistration{Status: fleet.ClusterRegistrationStatus{Conditions: trouble}},
		&fleet.ClusterRegistrationToken{Status: fleet.ClusterRegistrationTokenStatus{Conditions: trouble}},
		&fleet.Bundle{Status: fleet.BundleStatus{Conditions: trouble}},
	} {
		if diff := cmp.Diff(trouble, conditionsOf(object)); diff != "" {
			t.Errorf("%T (-want +got):\n%s", object, diff)
		}
	}
	if got := conditionsOf(&fleet.BundleDeployment{Status: fleet.BundleDeploymentStatus{Conditions: trouble}}); got != nil {
		t.Errorf("what an agent says was taken for ours: %v", got)
	}
}

func TestReport_RecordsEqualConditionsOnce(t *testing.T) {
	condition := func(conditionType, reason, message string) genericcondition.GenericCondition {
		return genericcondition.GenericCondition{Type: conditionType, Status: "False", Reason: reason, Message: message}
	}
	after := []genericcondition.GenericCondition{
		condition("Ready", "Lost", "look for it"), condition("Processed", "Lost", "look for it"),
		condition("Imported", "Lost", "look elsewhere"), condition("Reconciled", "Gone", "look for it"),
	}
	want := []genericcondition.GenericCondition{after[0], after[2], after[3]}
	if diff := cmp.Diff(want, newTroubles(nil, after)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if again := newTroubles(after, after); again != nil {
		t.Errorf("told again: %v", again)
	}
}
