package grant

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// expectCounted compares what was counted, in any order: the exposition has one of its own.
func expectCounted(t *testing.T, hub *hubtest.Hub, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, metricstest.Counted(t, hub.App.Metrics)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func expectEvents(t *testing.T, hub *hubtest.Hub, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, hub.Told()); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// stage is what the histogram of stages says of one.
func stage(name, seconds string) []string {
	labels := `{stage="` + name + `"}`
	return []string{
		"fleet_registration_stage_duration_seconds_sum" + labels + " " + seconds,
		"fleet_registration_stage_duration_seconds_count" + labels + " 1",
	}
}

func TestRegistrationStages_AreMeasuredUntilFirstUse(t *testing.T) {
	hub := start(t, request(), cluster(func(c *fleet.Cluster) { c.Status.Namespace = "" }), asked())
	handle(t, hub)
	catchUp(t, hub)
	hub.Pass(2 * time.Second)
	withNamespace := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1")
	withNamespace.Status.Namespace = clusterNamespace
	hub.Put(withNamespace)
	handle(t, hub)
	expectCounted(t, hub, stage("namespace", "2")...)
	catchUp(t, hub)

	hub.Pass(3 * time.Second)
	hub.RefuseTokens(1)
	handle(t, hub)
	hub.Pass(4 * time.Second)
	handle(t, hub)
	granted := slices.Concat([]string{`fleet_registrations_total{outcome="granted"} 1`}, stage("namespace", "2"), stage("rights", "3"), stage("credential", "4"))
	expectCounted(t, hub, granted...)
	expectEvents(t, hub, "Normal RegistrationGranted registration granted after 9s")

	catchUp(t, hub)
	handle(t, hub)
	expectCounted(t, hub, granted...) // not in use yet
	hub.Pass(5 * time.Second)
	withNamespace.Status.Agent.LastSeen.Time = hub.Now()
	hub.Put(withNamespace)
	handle(t, hub)
	used := slices.Concat(granted, stage("heartbeat", "5"))
	expectCounted(t, hub, used...)
	hub.Pass(time.Hour)
	handle(t, hub)
	expectCounted(t, hub, used...) // once
	expectEvents(t, hub)
}

func TestQuickRegistration_RecordsNoEvent(t *testing.T) {
	hub := start(t, request(), cluster(), asked())
	settle(t, hub, 2)
	if !current(t, hub).Status.Granted {
		t.Fatal("not granted")
	}
	expectEvents(t, hub)
}

func TestRejection_CountsOnce(t *testing.T) {
	hub := start(t, request(func(r *fleet.ClusterRegistration) { r.Spec.ClientID = "" }))
	for range 3 {
		handle(t, hub)
		catchUp(t, hub)
	}
	expectCounted(t, hub, `fleet_registrations_total{outcome="rejected"} 1`)
}

func TestAbandonedRequest_IsNotMeasured(t *testing.T) {
	hub := start(t)
	h := &handler{app: hub.App, stages: metrics.NewStages(hub.App.Clock, hub.App.Metrics.Stage)}
	in := grant.Input{Request: request()}
	h.measure(in, grant.Outcome{Stage: grant.AwaitingNamespace})
	hub.Pass(time.Second)
	h.measure(in, grant.Outcome{Stage: grant.Abandoned})
	expectCounted(t, hub)
}

func TestRequestGrantedBefore_IsNotMeasured(t *testing.T) {
	hub := start(t, request(func(r *fleet.ClusterRegistration) { r.Status.Granted, r.Status.ClusterName = true, "c1" }), cluster(), asked())
	settle(t, hub, 2)
	got := metricstest.Counted(t, hub.App.Metrics)
	for _, line := range got {
		if strings.HasPrefix(line, "fleet_registration_stage") && !strings.Contains(line, "heartbeat") {
			t.Errorf("measured: %s", line)
		}
	}
}

func TestSupersededRegistration_IsCounted(t *testing.T) {
	older := request(named("r0"))
	older.CreationTimestamp.Time = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	hub := grantedHub(t, older)
	c := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1")
	c.Status.Agent.LastSeen.Time = hub.Now()
	hub.Put(c)
	handle(t, hub)
	if want := `fleet_registrations_total{outcome="superseded"} 1`; !slices.Contains(metricstest.Counted(t, hub.App.Metrics), want) {
		t.Errorf("counted %v, want %s, too", metricstest.Counted(t, hub.App.Metrics), want)
	}
}

// supersedes is a hub on which the agent of ws/r1 has reported. The older request ws/r0 of its client is still there.
func supersedes(t *testing.T, modifiers ...func(*fleet.Cluster)) *hubtest.Hub {
	t.Helper()
	hub := grantedHub(t)
	older := request(named("r0"))
	older.CreationTimestamp.Time = hub.Now().Add(-time.Hour)
	older.Status.Granted, older.Status.ClusterName = true, "c1"
	hub.Put(older, cluster(append(modifiers, seen(hub.Now().Add(time.Minute)))...))
	return hub
}

func TestStatusThatCannotBeWritten_KeepsNoSupersededRequest(t *testing.T) {
	hub := supersedes(t)
	r := current(t, hub)
	r.Status.Conditions = nil // which have to be written
	hub.Put(r)
	hub.Fail("update ClusterRegistration/status ws/r1", errServer)
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
		t.Errorf("error %v, want the server's", err)
	}
	if hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r0") != nil {
		t.Error("the superseded request and its credential are still there")
	}
}

func TestSupersededRequestThatCannotBeDeleted_KeepsNoStatus(t *testing.T) {
	hub := supersedes(t)
	r := current(t, hub)
	r.Status.Conditions = nil
	hub.Put(r)
	hub.Fail("delete ClusterRegistration ws/r0", errServer)
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
		t.Errorf("error %v, want the server's", err)
	}
	if granted := conditions.Get(current(t, hub).Status.Conditions, conditions.Granted); granted == nil {
		t.Error("no condition was written")
	}
}

func TestHeartbeatOfAClusterOfAnotherManager_CostsNothing(t *testing.T) {
	labelled := func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "other"} }
	hub := supersedes(t, labelled)
	handle(t, hub)
	catchUp(t, hub)
	hub.Requests()
	hub.Put(cluster(labelled, seen(hub.Now().Add(2*time.Minute))))
	handle(t, hub)
	expectRequests(t, hub)
}

// An import for Cluster API has recorded which cluster it is. Its agent may have registered in another one.
func TestAgentThatRegistersAgain_IsNoLongerTheRecordedCluster(t *testing.T) {
	for name, test := range map[string]struct {
		kubeconfig string
		want       types.UID
	}{
		"it joined with a token": {"", ""},
		"it was imported":        {"kc", "u-cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := supersedes(t, func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = test.kubeconfig })
			c := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1")
			hub.App.Identities.Note(c, "u-cluster")
			handle(t, hub)
			if uid, err := hub.App.Identities.Of(c); err != nil || uid != test.want {
				t.Errorf("UID %q, want %q; error %v", uid, test.want, err)
			}
		})
	}
}
