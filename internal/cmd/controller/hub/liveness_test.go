package hub_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reporting returns a Cluster whose agent was installed by hand and reports.
func reporting(name string) *fleet.Cluster {
	return &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, UID: types.UID(name)},
		Status:     fleet.ClusterStatus{Namespace: "c-" + name, Agent: fleet.AgentStatus{LastSeen: metav1.NewTime(time.Unix(0, 0))}},
	}
}

// adoption returns the BundleDeployment of a Cluster's agent. It is applied if there is an ID.
func adoption(cluster, applied string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c-" + cluster, Name: names.AgentBundle(cluster)},
		Status:     fleet.BundleDeploymentStatus{AppliedDeploymentID: applied},
	}
}

// everyMinute sets the hub's check-in interval to one minute.
func everyMinute(hub *hubtest.Hub) {
	config := hub.App.Config.Get()
	config.AgentCheckinInterval.Duration = time.Minute
	hub.App.Config.Set(config)
}

func TestAppliedAgentBundle_UsesTheHubsInterval(t *testing.T) {
	hub := hubtest.New(t)
	everyMinute(hub)
	clusters := map[string]supervision.Reporting{
		"adopted": supervision.ReportingSilent, "byhand": supervision.ReportingHeard, "waiting": supervision.ReportingHeard,
	}
	hub.Put(adoption("adopted", "s-1:a"), adoption("waiting", ""))
	for name := range clusters {
		hub.Put(reporting(name))
		hub.App.Liveness.Of(reporting(name))
	}
	hub.Pass(4 * time.Minute)
	hub.App.Liveness.DecideAll()
	got := map[string]supervision.Reporting{}
	for name := range clusters {
		got[name] = hub.App.Liveness.Of(reporting(name))
	}
	if diff := cmp.Diff(clusters, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if hub.App.Liveness.Stale(types.NamespacedName{Namespace: "ws", Name: "unknown"}) {
		t.Error("a Cluster that is not there is stale")
	}
}

func TestChangedConfiguration_IsJudgedAtOnce(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(reporting("east"), adoption("east", "s-1:a"))
	var changed []string
	hub.App.Liveness.OnChange(func(cluster types.NamespacedName) { changed = append(changed, cluster.String()) })
	hub.App.Liveness.Of(reporting("east"))
	hub.Pass(4 * time.Minute)
	everyMinute(hub)
	if diff := cmp.Diff([]string{"ws/east"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestManySilentAgents_AreReportedToTheOperator(t *testing.T) {
	hub := hubtest.New(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		hub.Put(reporting(name))
		hub.App.Liveness.Of(reporting(name))
	}
	hub.Pass(time.Hour)
	hub.App.Liveness.DecideAll()
	hub.App.Liveness.DecideAll()
	want := []string{
		"Warning ManyAgentsSilent 4 of 4 agents in workspace ws stopped reporting at the same time. Their Clusters keep their state for now, because the cause is probably the hub or its network. Check that agents can reach the hub at its apiServerURL.",
	}
	if diff := cmp.Diff(want, hub.Told()); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}
