package clusterimport

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	grantrule "github.com/fleet-hub/fleet/internal/rules/grant"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	"github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// namespaceFor is the namespace of a Cluster on the hub, in which a UID may be recorded.
func namespaceFor(workspace, name, system string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: names.ClusterNamespace(workspace, name), Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{fleet.AnnotationCluster: name, fleet.AnnotationClusterNamespace: workspace},
	}}
	if system != "" {
		namespace.Annotations[annotation.SystemUID] = system
	}
	return namespace
}

// forClusterAPI marks a Cluster as created for Cluster API.
func forClusterAPI(c *fleet.Cluster) {
	c.Annotations = map[string]string{annotation.CAPICluster: c.Namespace + "/" + c.Name + "/capi-1"}
}

func TestAnImport_RecordsWhichClusterItIs(t *testing.T) {
	for name, modify := range map[string]func(*fleet.Cluster){"by hand": func(*fleet.Cluster) {}, "for Cluster API": forClusterAPI} {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster(modify), namespaceFor("ws", "c1", ""))
			work(t, hub)
			expectImported(t, hub, "")
			namespace := hubtest.MustGet[*corev1.Namespace](t, hub, "", names.ClusterNamespace("ws", "c1"))
			if uid := namespace.Annotations[annotation.SystemUID]; uid != "u-downstream" {
				t.Errorf("recorded %q", uid)
			}
			requests := hub.Requests()
			hubtest.ExpectOrder(t, requests, readTarget, "patch Namespace "+namespace.Name, applied)
		})
	}
}

func TestARecordThatHadNoNamespace_IsWrittenLater(t *testing.T) {
	hub, _ := ready(t, cluster())
	work(t, hub)
	hub.Sync()
	hub.Put(namespaceFor("ws", "c1", ""))
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readSecret, "patch Namespace "+names.ClusterNamespace("ws", "c1"))
}

// A cluster of Cluster API gets no second agent. A user may install one in another namespace.
func TestAClusterThatIsRegistered_GetsNoSecondAgentForClusterAPI(t *testing.T) {
	for name, test := range map[string]struct {
		modify    func(*fleet.Cluster)
		workspace string // of the other Cluster
		bootstrap string
		isHub     bool
		reason    string
	}{
		"another workspace":                {modify: forClusterAPI, workspace: "secret-team", reason: conditions.ReasonImportedTwice},
		"the same workspace":               {modify: forClusterAPI, workspace: "ws", reason: conditions.ReasonImportedTwice},
		"a user imports it twice":          {modify: func(*fleet.Cluster) {}, workspace: "secret-team"},
		"the hub":                          {modify: forClusterAPI, workspace: "ws", isHub: true, reason: conditions.ReasonTargetIsHub},
		"the hub, the bootstrap workspace": {modify: forClusterAPI, workspace: "ws", bootstrap: "ws", isHub: true, reason: conditions.ReasonTargetIsHub},
	} {
		t.Run(name, func(t *testing.T) {
			other := cluster(func(c *fleet.Cluster) {
				c.Namespace, c.Name, c.UID, c.Spec.ClientID = test.workspace, "secret-name", "u-other", "other"
			})
			hub, behind := ready(t, cluster(test.modify), other, namespaceFor(test.workspace, "secret-name", "u-downstream"), namespaceFor("ws", "c1", ""))
			if test.isHub {
				behind.uid = ownNamespace().UID
			}
			conf := hubConfig()
			conf.Bootstrap = config.Bootstrap{Namespace: test.bootstrap}
			hub.App.Config.Set(conf)
			hub.Woken()
			work(t, hub)
			expectImported(t, hub, test.reason)
			wrote := false
			for _, request := range hub.Requests() {
				wrote = wrote || strings.HasPrefix(request, "downstream apply ") || strings.HasPrefix(request, "downstream remove ")
			}
			if wrote != (test.reason == "") {
				t.Errorf("written downstream: %t", wrote)
			}
			message := conditions.Get(current(t, hub).Status.Conditions, conditions.Imported).Message
			if test.workspace != "ws" && strings.Contains(message, "secret-") {
				t.Errorf("message %q names another workspace", message)
			}
		})
	}
}

// A new cluster with the name of a former one has a kubeconfig Secret of the same name.
func TestAClusterKeptForAnEarlierOne_GetsNoAgentInTheNewOne(t *testing.T) {
	for name, test := range map[string]struct{ recorded, reason, stays string }{
		"another cluster":  {"u-former", conditions.ReasonNameTaken, "u-former"},
		"the same cluster": {"u-downstream", "", "u-downstream"},
		"not recorded yet": {"", "", "u-downstream"},
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster(forClusterAPI, func(c *fleet.Cluster) { capirule.Keep(c, conditions.ReasonClusterPaused) }), namespaceFor("ws", "c1", test.recorded))
			work(t, hub)
			expectImported(t, hub, test.reason)
			if wrote := len(writesDownstream(hub)) > 0; wrote != (test.reason == "") {
				t.Errorf("written downstream: %t", wrote)
			}
			hub.Sync()
			if uid := hubtest.MustGet[*corev1.Namespace](t, hub, "", names.ClusterNamespace("ws", "c1")).Annotations[annotation.SystemUID]; uid != test.stays {
				t.Errorf("recorded %q", uid)
			}
		})
	}
}

// No import has recorded which cluster joined by itself, but its client ID tells. The request that should have found that out before
// the import may have failed.
func TestAClusterThatJoinedByItself_KeepsItsAgent(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		recorded string // of ws/c1
		joined   func(*fleet.Cluster)
		reason   string
	}{
		"the same workspace":                {joined: func(*fleet.Cluster) {}, reason: conditions.ReasonImportedTwice},
		"another workspace":                 {joined: func(c *fleet.Cluster) { c.Namespace = "secret-team" }},
		"another client ID":                 {joined: func(c *fleet.Cluster) { c.Spec.ClientID = "u-elsewhere" }},
		"it is being deleted":               {joined: func(c *fleet.Cluster) { c.DeletionTimestamp, c.Finalizers = &now, []string{"f"} }},
		"the one of Cluster API came first": {recorded: "u-downstream", joined: func(*fleet.Cluster) {}},
	} {
		t.Run(name, func(t *testing.T) {
			joined := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "my-east", UID: "u-east"}, Spec: fleet.ClusterSpec{ClientID: "u-downstream"}}
			test.joined(joined)
			hub, behind := ready(t, cluster(forClusterAPI), joined, namespaceFor("ws", "c1", test.recorded))
			behind.there = []hubtest.Object{agentDeployment(1), identityOf("ws", "my-east")}
			hub.Fail(readTarget, errServer)
			work(t, hub)
			hub.Fail(readTarget, nil)
			hub.Pass(retryMin + retryMin/4)
			work(t, hub)
			expectImported(t, hub, test.reason)
			if writes := writesDownstream(hub); (len(writes) > 0) != (test.reason == "") {
				t.Errorf("writes %q", writes)
			}
		})
	}
}

// Neither a record nor the client ID tells which cluster this one is, but its agent has a token of the other Cluster. An agent that
// joined by itself is in the default system namespace, also if that of the hub is another one.
func TestAClusterWhoseAgentHasATokenOfAnother_KeepsItsAgent(t *testing.T) {
	for _, test := range []struct{ workspace, system string }{
		{"ws", "cattle-fleet-system"}, {"secret-team", "cattle-fleet-system"}, {"ws", "hub-system"}, {"secret-team", "hub-system"},
	} {
		t.Run(test.workspace+", "+test.system, func(t *testing.T) {
			workspace, system := test.workspace, test.system
			hub, behind := ready(t, cluster(forClusterAPI), append(later(t, workspace), namespaceFor(workspace, "later", ""), namespaceFor("ws", "c1", ""))...)
			hub.App.Namespaces.System = system
			behind.there = []hubtest.Object{agentDeployment(1), identityOf(workspace, "later", tokenOf("u-later-account"))}
			work(t, hub)
			expectImported(t, hub, conditions.ReasonImportedTwice)
			if writes := writesDownstream(hub); len(writes) > 0 {
				t.Errorf("writes %q", writes)
			}
			hub.Sync()
			recorded := hubtest.MustGet[*corev1.Namespace](t, hub, "", names.ClusterNamespace(workspace, "later"))
			if uid := recorded.Annotations[annotation.SystemUID]; uid != "u-downstream" {
				t.Errorf("recorded %q, so that the Cluster is created again after it was refused", uid)
			}
		})
	}
}

// An importer that comes after the hub must not replace the agent.
func TestAUsersImportOfAClusterOfClusterAPI_LeavesItsAgent(t *testing.T) {
	for name, test := range map[string]struct {
		modify    func(*fleet.Cluster)
		workspace string
		reason    string
	}{
		"the same workspace":           {func(*fleet.Cluster) {}, "ws", conditions.ReasonImportedTwice},
		"another namespace for agents": {func(c *fleet.Cluster) { c.Spec.AgentNamespace = "second-agent" }, "ws", ""},
		"another workspace":            {func(*fleet.Cluster) {}, "secret-team", ""},
	} {
		t.Run(name, func(t *testing.T) {
			other := cluster(func(c *fleet.Cluster) {
				c.Namespace, c.Name, c.UID, c.Spec.ClientID = test.workspace, "first", "u-first", "first"
			}, forClusterAPI)
			hub, _ := ready(t, cluster(test.modify), other, namespaceFor(test.workspace, "first", "u-downstream"), namespaceFor("ws", "c1", ""))
			work(t, hub)
			expectImported(t, hub, test.reason)
			for _, request := range hub.Requests() {
				if test.reason != "" && (strings.HasPrefix(request, "downstream apply ") || strings.HasPrefix(request, "downstream remove ")) {
					t.Errorf("request %q", request)
				}
			}
		})
	}
}

// later is a Cluster that was imported after ws/c1 and took its agent over, with its registration, its account and its import token.
func later(t *testing.T, workspace string) []hubtest.Object {
	t.Helper()
	of := cluster(func(c *fleet.Cluster) {
		c.Namespace, c.Name, c.UID, c.Spec.ClientID = workspace, "later", "u-later", "later"
	})
	grant := request()
	grant.Namespace, grant.Name, grant.UID, grant.Spec.ClientID = workspace, "request-later", "u-request-later", "later"
	grant.Status = fleet.ClusterRegistrationStatus{Granted: true, ClusterName: "later"}
	made := importToken()
	made.Namespace, made.Name, made.UID = workspace, names.ImportToken("later"), "u-token-later"
	values, err := token.ValuesSecret(made, protocol.Values{ClusterNamespace: workspace, Token: "later-bearer", TokenName: made.Name})
	if err != nil {
		t.Fatal(err)
	}
	name := grantrule.RequestAccount(grant, of)
	return []hubtest.Object{of, grant, made, values, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, UID: "u-later-account", Labels: map[string]string{fleet.LabelManaged: "true"},
	}}}
}

// meansOf are what an agent registers with as a Cluster.
func meansOf(workspace, cluster, bearer string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: here("fleet-agent-bootstrap"), Data: protocol.Bootstrap{
		APIServerURL: "https://hub", ClusterNamespace: workspace, Token: bearer, TokenName: names.ImportToken(cluster), SystemRegistrationNamespace: "r",
	}.Encode()}
}

// writesDownstream are the changes on the other cluster.
func writesDownstream(hub *hubtest.Hub) (writes []string) {
	for _, request := range hub.Requests() {
		for _, verb := range []string{"apply", "remove", "replace"} {
			if strings.HasPrefix(request, "downstream "+verb+" ") {
				writes = append(writes, request)
			}
		}
	}
	return writes
}

// Two Clusters with one kubeconfig must not take the agent from each other.
func TestAgentThatALaterClusterTookOver_IsLeftAlone(t *testing.T) {
	changed := func(t *testing.T, hub *hubtest.Hub) {
		change(hub, func(c *config.Config) { c.GarbageCollectionInterval.Duration = 1 })
		work(t, hub)
	}
	silent := func(t *testing.T, hub *hubtest.Hub) { // the hub has no account of it any more
		hub.Put(granted(replaced)...)
		hub.Sync()
		hub.Woken()
		handle(t, hub)
		hub.Pass(expectRetry(t, hub, supervisionrule.FirstInspection))
		work(t, hub)
	}
	const here, elsewhere = "belongs to Cluster ws/later, ", "belongs to a Cluster of another workspace, "
	for name, test := range map[string]struct {
		owner string // its workspace
		there *corev1.Secret
		doubt func(*testing.T, *hubtest.Hub)
		taken string // in the message; empty: the agent is installed again
	}{
		"settings change":                           {"ws", identityOf("ws", "later", tokenOf("u-later-account")), changed, here},
		"settings change, another workspace":        {"secret-team", identityOf("secret-team", "later", tokenOf("u-later-account")), changed, elsewhere},
		"settings change, before it has registered": {"ws", meansOf("ws", "later", "later-bearer"), changed, here},
		"the agent is missed":                       {"secret-team", identityOf("secret-team", "later", tokenOf("u-later-account")), silent, elsewhere},
		"the agent is missed, another workspace's":  {"secret-team", meansOf("secret-team", "later", "later-bearer"), silent, elsewhere},
		"the account of the other one is gone":      {"ws", identityOf("ws", "later", tokenOf("u-gone")), changed, ""},
		"the token of a Cluster that is gone":       {"ws", meansOf("ws", "no-such", "later-bearer"), changed, ""},
		"an invented token of another workspace":    {"secret-team", meansOf("secret-team", "later", "guessed"), changed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			hub, behind := imported(t)
			behind.there = []hubtest.Object{agentDeployment(1), runningPod(), test.there}
			hub.Put(later(t, test.owner)...)
			hub.Sync()
			hub.Requests()
			test.doubt(t, hub)
			if writes := writesDownstream(hub); len(writes) > 0 {
				t.Errorf("writes %q", writes)
			}
			if test.taken == "" {
				expectImported(t, hub, conditions.ReasonAwaitingAgent)
				return
			}
			expectImported(t, hub, conditions.ReasonImportedTwice)
			message := conditions.Get(current(t, hub).Status.Conditions, conditions.Imported).Message
			for _, want := range []string{test.taken, "fleet unregister c1 -n ws --keep-workloads", "fleet repair c1 -n ws"} {
				if !strings.Contains(message, want) {
					t.Errorf("%q is not in %q", want, message)
				}
			}
			if strings.Contains(message, "secret-") || current(t, hub).Status.AgentDeployedGeneration == nil {
				t.Errorf("another workspace is named, or the agent is to register again: %q", message)
			}
			hub.Remove(later(t, test.owner)[0])
			hub.Sync()
			hub.Pass(retryMax + retryMax/2)
			work(t, hub)
			hub.Sync()
			work(t, hub)
			if writes := writesDownstream(hub); len(writes) == 0 {
				t.Error("the agent does not come back when the other Cluster is gone")
			}
		})
	}
}

// A user who asks for it gets the agent back.
func TestRedeployedAgent_IsTakenBack(t *testing.T) {
	hub, behind := imported(t, func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration++ })
	behind.there = []hubtest.Object{identityOf("ws", "later", tokenOf("u-later-account"))}
	hub.Put(later(t, "ws")...)
	hub.Sync()
	hub.Requests()
	work(t, hub)
	expectImported(t, hub, "")
	if writes := writesDownstream(hub); !slices.Contains(writes, removedID) || !slices.Contains(writes, applied) {
		t.Errorf("writes %q", writes)
	}
}
