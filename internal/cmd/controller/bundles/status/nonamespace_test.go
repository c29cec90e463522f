package status

import (
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// The namespace of the Cluster was given to another owner.
func TestSilentClusterWithoutNamespace_IsNotReady(t *testing.T) {
	hub := hubtest.New(t)
	silent := &fleet.Cluster{}
	silent.Namespace, silent.Name = "ws", "east"
	silent.Status.Agent.LastSeen = metav1.NewTime(hub.Now())
	silent.Status.Summary = fleet.BundleSummary{Ready: 2, DesiredReady: 2}
	silent.Status.Conditions = []genericcondition.GenericCondition{
		{Type: conditions.Ready, Status: "True"},
		{Type: conditions.AgentReporting, Status: "False", Reason: conditions.ReasonAgentNotReporting, Message: supervision.SilentMessage},
	}
	hub.Put(silent)
	if err := (&handler{app: hub.App}).onCluster(t.Context(), reconcile.KeyOf(silent)); err != nil {
		t.Fatal(err)
	}
	got := hub.Live(silent).(*fleet.Cluster).Status
	if ready := conditions.Get(got.Conditions, conditions.Ready); ready.Status != "False" || ready.Message != supervision.SilentMessage {
		t.Errorf("Ready is %+v", ready)
	}
	if want := (fleet.ClusterDisplay{ReadyBundles: "2/2", State: "WaitCheckIn"}); got.Display != want {
		t.Errorf("display %+v, want %+v", got.Display, want)
	}
}
