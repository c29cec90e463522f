package clusterimport

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestFirstImport_AppliesTheAgentInOrder(t *testing.T) {
	hub, behind := ready(t, cluster())
	work(t, hub)
	hubtest.ExpectOrder(t, hubtest.ExpectRequests(t, hub, readSecret, readCluster, readOwn, dialled, asked, readTarget, readMark, foundID, removedID, removedMeans, removedOld,
		"downstream apply Namespace cattle-fleet-system",
		"downstream apply Secret cattle-fleet-system/fleet-agent-bootstrap",
		"downstream apply ConfigMap cattle-fleet-system/fleet-agent",
		"downstream apply ClusterRole cattle-fleet-system-fleet-agent-role",
		"downstream apply ClusterRoleBinding cattle-fleet-system-fleet-agent-role-binding",
		"downstream apply ServiceAccount cattle-fleet-system/fleet-agent",
		"downstream apply ServiceAccount cattle-fleet-system/default",
		"downstream apply NetworkPolicy cattle-fleet-system/default-allow-all",
		applied, written), dialled, asked, readTarget, readMark, removedID, removedMeans, removedOld, "downstream apply Namespace cattle-fleet-system",
		"downstream apply Secret cattle-fleet-system/fleet-agent-bootstrap", applied, written)
	if behind.closed != 1 {
		t.Errorf("the connection was closed %d times", behind.closed)
	}
	generation := int64(0)
	want := fleet.ClusterStatus{
		AgentDeployedGeneration: &generation, AgentMigrated: true, CattleNamespaceMigrated: true, AgentNamespaceMigrated: true,
		APIServerURL: "https://hub", AgentTLSMode: "system-store", GarbageCollectionInterval: &metav1.Duration{},
	}
	got := current(t, hub).Status
	expectImported(t, hub, "")
	if got.APIServerCAHash == "" {
		t.Error("no hash of the CA")
	}
	got.Conditions, got.APIServerCAHash = nil, ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	hub.Sync()
	handle(t, hub)
	expectSome(t, hub, readSecret) // in sync
	expectNoWork(t, hub)
}

func TestStaleCache_ImportIsNotRepeated(t *testing.T) {
	hub, _ := ready(t, cluster())
	work(t, hub)
	hub.Requests()
	for range 3 {
		handle(t, hub)
	}
	expectSome(t, hub)
	hub.Sync()
	handle(t, hub)
	expectSome(t, hub, readSecret)
}

func TestRunningJob_NoSecondJobStarts(t *testing.T) {
	hub, _ := ready(t, cluster())
	inside, goOn := make(chan struct{}), make(chan struct{})
	hub.Before(asked, func() { close(inside); <-goOn })
	handle(t, hub)
	<-inside
	hub.Requests()
	handle(t, hub)
	expectSome(t, hub)
	hubtest.ExpectWoken(t, hub) // the end of the job will
	close(goOn)
	if diff := cmp.Diff([]string{"Cluster ws/c1"}, hub.AwaitWoken()); diff != "" {
		t.Errorf("woken at the end of the job (-want +got):\n%s", diff)
	}
}

func TestChangeDuringAJob_IsAppliedAfterIt(t *testing.T) {
	tests := map[string]error{"that succeeds": nil, "that fails": foreign.ErrUnreachable}
	for name, failure := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := ready(t, cluster())
			behind.there = append(behind.there, identityOf("ws", "c1"))
			inside, goOn := make(chan struct{}), make(chan struct{})
			hub.Before(asked, func() { close(inside); <-goOn })
			hub.Fail(asked, failure)
			handle(t, hub)
			<-inside
			changed := current(t, hub)
			changed.Generation, changed.Spec.HostNetwork = 2, new(bool)
			*changed.Spec.HostNetwork = true
			hub.Put(changed)
			handle(t, hub) // its event, while the job runs
			close(goOn)
			if diff := cmp.Diff([]string{"Cluster ws/c1"}, hub.AwaitWoken()); diff != "" {
				t.Fatalf("woken at the end of the job (-want +got):\n%s", diff)
			}
			hub.Fail(asked, nil)
			hub.Sync()
			work(t, hub) // begins at once, whatever the first one's end
			if got := current(t, hub).Status; !got.AgentHostNetwork {
				t.Error("the change was not carried out")
			}
			expectImported(t, hub, "")
		})
	}
}

func TestFailure_IsReportedOnceAndWaits(t *testing.T) {
	hub, _ := ready(t, cluster())
	hub.Fail(asked, fmt.Errorf("at 10:15: %w", foreign.ErrUnreachable))
	work(t, hub)
	expectSome(t, hub, readSecret, dialled, asked, written)
	expectImported(t, hub, conditions.ReasonDownstreamUnreachable)
	if events := hub.Told(); len(events) != 1 {
		t.Errorf("told %q", events)
	}
	least := retryMin
	for range 4 {
		hub.Sync()
		handle(t, hub)
		expectSome(t, hub, readSecret)
		wait := expectRetry(t, hub, least)
		hub.Pass(wait)
		hub.Requests()
		work(t, hub)
		expectSome(t, hub, readSecret, dialled, asked) // the condition says so already
		least *= 2
	}
	if events := hub.Told(); events != nil {
		t.Errorf("told again: %q", events)
	}
	hub.Fail(asked, nil)
	hub.Sync()
	handle(t, hub)
	hub.Pass(expectRetry(t, hub, least))
	work(t, hub)
	expectImported(t, hub, "")
}

func TestFailedImport_SetsTheReason(t *testing.T) {
	tests := map[string]struct {
		fail   string
		err    error
		reason string
	}{
		"the kubeconfig runs a command":       {dialled, kubeconfigs.ErrKubeconfigExec, conditions.ReasonKubeconfigRefused},
		"the kubeconfig is invalid":           {dialled, kubeconfigs.ErrKubeconfigMalformed, conditions.ReasonKubeconfigInvalid},
		"no server answers":                   {asked, foreign.ErrUnreachable, conditions.ReasonDownstreamUnreachable},
		"another CA":                          {asked, foreign.ErrUntrusted, conditions.ReasonTLSUntrusted},
		"removing the identity fails":         {removedID, errServer, conditions.ReasonError},
		"removing the bootstrap Secret fails": {removedMeans, errServer, conditions.ReasonError},
		"applying fails":                      {applied, errServer, conditions.ReasonError},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := ready(t, cluster())
			hub.Fail(test.fail, test.err)
			work(t, hub)
			expectImported(t, hub, test.reason)
			if got := current(t, hub).Status; got.AgentMigrated || got.AgentDeployedGeneration != nil {
				t.Errorf("a failed import left the status %+v", got)
			}
			if test.fail != dialled && behind.closed != 1 {
				t.Errorf("the connection was closed %d times", behind.closed)
			}
		})
	}
}

func TestRemovedCause_IsTriedAtOnce(t *testing.T) {
	set := func(modify func(*config.Config)) func(*testing.T, *hubtest.Hub) {
		return func(_ *testing.T, h *hubtest.Hub) { change(h, modify) }
	}
	tests := map[string]func(*testing.T, *hubtest.Hub){
		"in the Cluster": func(t *testing.T, h *hubtest.Hub) {
			c := current(t, h)
			c.Generation++
			h.Put(c)
		},
		"in the TLS mode":                        set(func(c *config.Config) { c.AgentTLSMode = config.TLSModeStrict }),
		"in the hub's address":                   set(func(c *config.Config) { c.APIServerURL = "https://elsewhere" }),
		"in the hub's CA":                        set(func(c *config.Config) { c.APIServerCA = []byte(rulestest.OtherCA) }),
		"in the kubeconfigs that are allowed":    set(func(c *config.Config) { c.AllowLocalKubeconfigs = true }),
		"in the networks that are refused":       set(func(c *config.Config) { c.RefusedKubeconfigCIDRs = []string{"10.0.0.0/8"} }),
		"in the agent's workers":                 set(func(c *config.Config) { c.AgentWorkers.Drift = "5" }),
		"in the image that a webhook can refuse": set(func(c *config.Config) { c.AgentImage = "registry.example/fleet-agent:dev" }),
	}
	for name, mend := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster())
			hub.Fail(asked, foreign.ErrUntrusted)
			work(t, hub)
			hub.Sync()
			handle(t, hub)
			expectRetry(t, hub, retryMin)
			hub.Fail(asked, nil)
			mend(t, hub)
			hub.Woken()
			work(t, hub)
			expectImported(t, hub, "")
		})
	}
}

func TestChangedSettings_AreAppliedInPlace(t *testing.T) {
	hub, behind := imported(t, func(c *fleet.Cluster) {
		c.Generation, c.Spec.AgentTolerations = 2, []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	})
	hub.Remove(importToken()) // its time is long over
	hub.Remove(values(t))
	work(t, hub)
	expectSome(t, hub, readSecret, dialled, asked, applied, written)
	for _, object := range behind.applied {
		if secret, ok := object.(*corev1.Secret); ok {
			t.Errorf("the agent that keeps its identity got Secret %s", secret.Name)
		}
	}
	got := current(t, hub).Status
	if got.Agent.LastSeen.IsZero() || got.AgentTolerationsHash == "" {
		t.Errorf("status %+v", got)
	}
	hub.Sync()
	handle(t, hub)
	expectSome(t, hub, readSecret)
}

func TestChangedGeneration_AgentRegistersAgain(t *testing.T) {
	tests := map[string]func(*fleet.Cluster){
		"higher generation": func(c *fleet.Cluster) { c.Generation, c.Spec.RedeployAgentGeneration = 2, 1 },
		"lower generation":  func(c *fleet.Cluster) { c.Generation, c.Spec.RedeployAgentGeneration = 2, -1 },
	}
	for name, modify := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := imported(t, modify)
			work(t, hub)
			// The status is reset before the agent is touched: its first heartbeat is a new one.
			expectSome(t, hub, readSecret, dialled, asked, written, removedID, removedMeans, removedOld, applied, written)
			got := current(t, hub).Status
			if !got.Agent.LastSeen.IsZero() || got.AgentDeployedGeneration == nil || *got.AgentDeployedGeneration != current(t, hub).Spec.RedeployAgentGeneration {
				t.Errorf("status %+v", got)
			}
			hub.Sync()
			handle(t, hub)
			expectSome(t, hub, readSecret)
		})
	}
}

func TestNewRegistration_StatusIsResetFirst(t *testing.T) {
	hub, _ := imported(t, func(c *fleet.Cluster) { c.Generation, c.Spec.RedeployAgentGeneration = 2, 1 })
	hub.Fail(written, errServer)
	work(t, hub)
	for _, request := range hub.Requests() {
		if request == removedID || request == applied {
			t.Errorf("%s, though the status could not be reset", request)
		}
	}
}

func TestAgentNamespace_IsUsedOnce(t *testing.T) {
	hub, _ := ready(t, cluster(func(c *fleet.Cluster) { c.Spec.AgentNamespace = "agents" }))
	work(t, hub)
	if got := current(t, hub).Status.Agent.Namespace; got != "agents" {
		t.Errorf("the agent's namespace is %q", got)
	}
	hub.Requests()
	hub.Sync()
	handle(t, hub)
	expectSome(t, hub, readSecret) // once is enough, though the agent was not seen yet
	expectNoWork(t, hub)
}

func TestMovedAgent_IsRemovedAndInstalledAgain(t *testing.T) {
	move := func(c *fleet.Cluster) { c.Generation, c.Spec.AgentNamespace = 2, "agents" }
	leaves := "downstream remove Deployment cattle-fleet-system/fleet-agent"
	lands := "downstream apply Deployment agents/fleet-agent"
	for _, fail := range []string{"", removedID, removedMeans, leaves, "downstream remove Secret agents/fleet-agent", lands, written} {
		t.Run("failing first at "+fail, func(t *testing.T) {
			hub, _ := imported(t, move)
			if fail != "" {
				hub.Fail(fail, errServer)
				work(t, hub)
				hub.Fail(fail, nil)
				hub.Sync()
				handle(t, hub)
				hub.Pass(expectRetry(t, hub, retryMin))
				hub.Requests()
			}
			work(t, hub)
			requests := hub.Requests()
			if fail != lands && fail != "downstream remove Secret agents/fleet-agent" { // by then it has left
				hubtest.ExpectOrder(t, requests, leaves, written, "downstream remove Secret agents/fleet-agent", lands)
			}
			hubtest.ExpectOrder(t, requests, "downstream remove Secret agents/fleet-agent", "downstream apply Secret agents/fleet-agent-bootstrap", lands)
			got := current(t, hub).Status
			if diff := cmp.Diff(fleet.AgentStatus{Namespace: "agents"}, got.Agent); diff != "" || got.AgentDeployedGeneration == nil {
				t.Errorf("generation %v, agent (-want +got):\n%s", got.AgentDeployedGeneration, diff)
			}
			expectImported(t, hub, "")
			hub.Sync()
			handle(t, hub)
			expectSome(t, hub, readSecret)
		})
	}
}

func TestStoppingProcess_ReportsNoFailure(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	hub := hubtest.New(t)
	behind := &downstream{hub: hub}
	hub.App.Dial = behind.dial
	hub.App.Config.Set(hubConfig())
	if err := Register(ctx, hub.App); err != nil {
		t.Fatal(err)
	}
	go hub.App.Remote.Run(ctx)
	hub.Put(cluster(), kubeconfig(), importToken(), values(t), ownNamespace())
	hub.Before(asked, end)
	hub.Fail(asked, context.Canceled)
	work(t, hub)
	expectSome(t, hub, readSecret, dialled, asked)
	if got := hub.Told(); got != nil {
		t.Errorf("told %q", got)
	}
}

// A job may wait for minutes, and its cluster may have joined elsewhere meanwhile.
func TestJobOfADeletedCluster_ChangesNothingDownstream(t *testing.T) {
	now := metav1.Now()
	ends := map[string]func(*hubtest.Hub){
		"deleted": func(hub *hubtest.Hub) { hub.Remove(cluster()) },
		"being deleted": func(hub *hubtest.Hub) {
			hub.Put(cluster(func(c *fleet.Cluster) { c.DeletionTimestamp, c.Finalizers = &now, []string{"f"} }))
		},
		"another is there": func(hub *hubtest.Hub) { hub.Put(cluster(func(c *fleet.Cluster) { c.UID = "u-another" })) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster())
			hub.Before(readCluster, func() { end(hub) })
			work(t, hub)
			hubtest.ExpectRequests(t, hub, readSecret, readCluster)
		})
		t.Run(name+" while the job runs", func(t *testing.T) {
			hub, _ := ready(t, cluster())
			hub.Before(foundID, func() { end(hub) })
			work(t, hub)
			hubtest.ExpectRequests(t, hub, readSecret, readCluster, readOwn, dialled, asked, readTarget, readMark, foundID)
		})
		t.Run(name+" before an inspection", func(t *testing.T) {
			hub, _ := awaited(t, agentDeployment(1), runningPod(), means("bearer"))
			hub.Before(readCluster, func() { end(hub) })
			hub.Pass(5 * time.Minute)
			work(t, hub)
			expectLooks(t, hub, readCluster)
		})
	}
}

func TestDeployedButNotReported_IsRepeated(t *testing.T) {
	hub, _ := ready(t, cluster())
	hub.Fail(written, errServer)
	work(t, hub)
	hub.Fail(written, nil)
	handle(t, hub)
	hub.Pass(expectRetry(t, hub, retryMin))
	work(t, hub)
	expectImported(t, hub, "")
}

func TestClusterDeletedDuringItsImport_IsNotRecreated(t *testing.T) {
	hub, _ := ready(t, cluster())
	hub.Before(asked, func() { hub.Remove(cluster()) })
	work(t, hub)
	handle(t, hub)
	if hubtest.Get[*fleet.Cluster](hub, "ws", "c1") != nil {
		t.Error("the Cluster is back")
	}
}

func TestDisabledLocalAgent_IsRemovedOnlyFromTheHub(t *testing.T) {
	const readUID = "get Namespace kube-system"
	local := func(c *fleet.Cluster) {
		c.Namespace, c.Name = "fleet-local", "local"
		generation := int64(0)
		c.Status = fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: metav1.Now(), Namespace: "cattle-fleet-system"}, AgentDeployedGeneration: &generation, AgentConfigChanged: true}
	}
	secret := kubeconfig()
	secret.Namespace = "fleet-local"
	tests := map[string]struct {
		modify  func(*fleet.Cluster)
		behind  string
		fail    string
		reason  string
		removes bool
	}{
		"the hub's own cluster: removed":             {behind: "u-hub", removes: true},
		"another cluster: not removed":               {behind: "u-other", reason: conditions.ReasonLocalClusterMismatch},
		"cluster without a UID: not removed":         {behind: "", reason: conditions.ReasonLocalClusterMismatch},
		"no kubeconfig: only the status is cleared":  {modify: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }},
		"UID of the hub cannot be read: retried":     {behind: "u-hub", fail: readUID, reason: conditions.ReasonError},
		"UID of the cluster cannot be read: retried": {behind: "u-hub", fail: "downstream uid kube-system", reason: conditions.ReasonError},
		"cluster is unreachable: retried":            {behind: "u-hub", fail: dialled, reason: conditions.ReasonError},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster(local)
			if test.modify != nil {
				test.modify(c)
			}
			hub, behind := start(t, c, secret, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u-hub"}})
			behind.uid = ""
			if test.behind != "" {
				behind.uid = "u-hub"
				if test.behind != "u-hub" {
					behind.uid = "u-other"
				}
			}
			conf := hubConfig()
			conf.Bootstrap = config.Bootstrap{Namespace: "fleet-local", LocalAgentDisabled: true}
			hub.App.Config.Set(conf)
			hub.Woken()
			hub.Fail(test.fail, errServer)
			if err := hub.Handle("Cluster", "fleet-local/local"); err != nil {
				t.Fatal(err)
			}
			hub.AwaitWoken()
			removed := false
			for _, request := range hub.Requests() {
				removed = removed || request == "downstream remove Deployment cattle-fleet-system/fleet-agent"
			}
			if removed != test.removes {
				t.Errorf("the agent was removed: %v", removed)
			}
			got := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-local", "local").Status
			condition := conditions.Get(got.Conditions, conditions.Imported)
			if condition.Reason != test.reason {
				t.Errorf("condition %+v, want reason %q", condition, test.reason)
			}
			if cleared := got.Agent == (fleet.AgentStatus{}) && got.AgentDeployedGeneration == nil && !got.AgentConfigChanged; cleared != (test.reason == "") {
				t.Errorf("status %+v", got)
			}
		})
	}
}
