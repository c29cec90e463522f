package rules_test

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// flows returns the ways in which a cluster joins and rejoins, as actions of people at certain times.
func flows() map[string]func(*world) {
	all := map[string]func(*world){
		"agent-initiated":                agentInitiated,
		"agent-initiated-with-client-id": agentInitiatedWithClientID,
		"manager-initiated":              func(w *world) { managerInitiated(w, rulestest.Workspace, "east") },
		"local":                          func(w *world) { managerInitiated(w, "fleet-local", "local") },
		"re-registration":                reRegistration,
		"lost-credential":                lostCredential,
		"lost-account":                   lostAccount,
		"expired-token":                  expiredToken,
		"asked-for-by-generation":        askedFor,
		"cluster-made-anew":              clusterMadeAnew,
		"takeover-confirmed":             takeoverConfirmed,
		"takeover-of-a-silent-agent":     takeoverOfSilentAgent,
		"takeover-by-nobody":             takeoverByNobody,
	}
	maps.Copy(all, recoveryFlows())
	return all
}

// agentInitiated: an admin creates a token and installs an agent with its values on a cluster unknown to the hub.
func agentInitiated(w *world) {
	west := w.joinWest()
	w.later(time.Hour) // the credential expires, the rights stay
	w.expectServing(west, westCluster())
}

func westCluster() string { return names.Cluster("kube-system of west") }

func (w *world) joinWest() *agent {
	w.t.Helper()
	west := w.agent("west")
	w.admin("", w.createToken("t1", 24*time.Hour))
	w.admin("helm install", w.helmInstall("west", "t1", config.Agent{Labels: map[string]string{"env": "prod"}}))
	w.expectServing(west, westCluster())
	return west
}

// agentInitiatedWithClientID: the Cluster was created first, and the agent is configured with its client ID.
func agentInitiatedWithClientID(w *world) {
	west := w.agent("west")
	w.admin("", w.createCluster(rulestest.Workspace, "west", fleet.ClusterSpec{ClientID: "west-id"}), w.createToken("t1", 24*time.Hour))
	w.admin("helm install", w.helmInstall("west", "t1", config.Agent{ClientID: "west-id"}))
	w.expectServing(west, "west")
}

// managerInitiated: an admin creates only a kubeconfig Secret and a Cluster. The hub registers itself in the same way.
func managerInitiated(w *world, namespace, name string) {
	w.importCluster(namespace, name)
	w.later(time.Hour)
}

func (w *world) importCluster(namespace, name string) *agent {
	w.t.Helper()
	a := w.agent(name)
	w.admin("", func() {
		w.put(onHub, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": []byte(name)},
		})
	}, w.createCluster(namespace, name, fleet.ClusterSpec{KubeConfigSecret: name + "-kubeconfig"}))
	w.expectServingIn(a, namespace, name)
	return a
}

// reRegistration: an agent loses its Secret and gets another bootstrap Secret. It stays the same Cluster. The older
// request is deleted when the new credential is in use.
func reRegistration(w *world) {
	west := w.joinWest()
	w.later(20 * time.Minute)
	before := find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster())
	w.later(time.Minute) // so that the next heartbeat differs
	w.admin("", w.delete("west", "Secret", "cattle-fleet-system", "fleet-agent"))
	w.admin("helm upgrade", w.helmInstall("west", "t1", config.Agent{Labels: map[string]string{"env": "prod"}}))
	w.expectServing(west, westCluster())
	rulestest.ExpectEqual(w.t, "UID of the cluster", find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster()).UID, before.UID)
	w.expectRequests("request-west-2")
}

// askedFor: a person raises spec.redeployAgentGeneration of an imported Cluster.
func askedFor(w *world) {
	east := w.importCluster(rulestest.Workspace, "east")
	w.later(20 * time.Minute)
	w.admin("", func() {
		cluster := find[fleet.Cluster](w, onHub, rulestest.Workspace, "east")
		cluster.Spec.RedeployAgentGeneration++
		w.put(onHub, cluster)
	})
	w.expectServing(east, "east")
	w.expectRequests("request-east-2")
}

// deafWest has requested a credential, which was granted, but cannot fetch it.
func (w *world) deafWest() *agent {
	w.t.Helper()
	west := w.agent("west")
	west.deaf = true
	w.admin("", w.createToken("t1", 24*time.Hour))
	w.admin("helm install", w.helmInstall("west", "t1", config.Agent{}))
	return west
}

func (w *world) hears(a *agent) {
	w.t.Helper()
	w.admin("the agent hears again", func() { a.deaf = false })
	w.expectServing(a, westCluster())
	w.expectRequests("request-west-1")
}

// lostCredential: the credential Secret is deleted before the agent fetches it. It is created again.
func lostCredential(w *world) {
	west := w.deafWest()
	credential := names.CredentialSecret("kube-system of west", "random 1 of west")
	w.admin("", w.delete(onHub, "Secret", rulestest.HubNamespaces().Registration, credential))
	w.hears(west)
}

// lostAccount: the account is deleted before the agent fetches its credential. Both are created again.
func lostAccount(w *world) {
	west := w.deafWest()
	w.admin("", w.delete(onHub, "ServiceAccount", names.ClusterNamespace(rulestest.Workspace, westCluster()), "request-west-1-u1"))
	w.hears(west)
}

// expiredToken: an agent is installed with values of an expired token, and then with other values.
func expiredToken(w *world) {
	west := w.agent("west")
	w.admin("", w.createToken("t1", time.Hour))
	values := w.helmInstall("west", "t1", config.Agent{})
	late := find[corev1.Secret](w, onHub, rulestest.Workspace, "t1")
	w.later(2 * time.Hour)
	w.admin("helm install", func() {
		w.objects[place{onHub, "Secret", rulestest.Workspace, "t1"}] = late // the copy of the admin
		values()
		delete(w.objects, place{onHub, "Secret", rulestest.Workspace, "t1"})
	})
	w.admin("", w.createToken("t2", time.Hour))
	w.admin("helm upgrade", w.helmInstall("west", "t2", config.Agent{}))
	w.expectServing(west, westCluster())
	w.later(2 * time.Hour) // t2 expires; registered agents are not affected
	w.expectServing(west, westCluster())
}

// clusterMadeAnew: an imported Cluster is deleted by removing its finalizer, and created again before any controller
// notices. Nothing of the old Cluster remains or affects the new one.
func clusterMadeAnew(w *world) {
	east := w.importCluster(rulestest.Workspace, "east")
	w.later(20 * time.Minute)
	w.admin("", w.delete(onHub, "Cluster", rulestest.Workspace, "east"), w.createCluster(rulestest.Workspace, "east", fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}))
	w.expectServing(east, "east")
	w.expectRequests("request-east-2")
	rulestest.ExpectEqual(w.t, "clusters", len(list[fleet.Cluster](w, onHub)), 1)
}

// takeoverConfirmed: an agent loses its Secret and gets values of another token. It waits until the operator confirms
// the takeover on its Cluster.
func takeoverConfirmed(w *world) {
	west := w.joinWest()
	w.later(time.Minute) // so that the next heartbeat differs
	w.admin("", w.createToken("t2", 24*time.Hour), w.delete("west", "Secret", "cattle-fleet-system", "fleet-agent"))
	w.admin("helm upgrade", w.helmInstall("west", "t2", config.Agent{Labels: map[string]string{"env": "prod"}}))
	w.expectRequests("request-west-1", "request-west-2")
	w.admin("confirms", func() {
		cluster := find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster())
		cluster.Annotations = map[string]string{annotation.ConfirmTakeover: "request-west-2"}
		w.put(onHub, cluster)
	})
	w.expectServing(west, westCluster())
	w.expectRequests("request-west-2")
}

// takeoverOfSilentAgent: a cluster is lost and another one replaces it. The silence of the first agent is not enough:
// the request is granted when the operator confirms it.
func takeoverOfSilentAgent(w *world) {
	lost, anew := w.twoWests()
	lost.silent = true
	w.later(time.Minute)
	w.expectRequests("request-anew-1", "request-west-1")
	w.admin("confirms", func() {
		cluster := find[fleet.Cluster](w, onHub, rulestest.Workspace, "west")
		cluster.Annotations = map[string]string{annotation.ConfirmTakeover: "request-anew-1"}
		w.put(onHub, cluster)
	})
	w.expectServing(anew, "west")
	w.expectRequests("request-anew-1")
}

// takeoverByNobody: an agent requests the client ID of another agent, and no one confirms it. Its request is cleaned
// up, and the other agent is not affected.
func takeoverByNobody(w *world) {
	west, anew := w.twoWests()
	before := find[corev1.Secret](w, "west", names.SystemNamespace, names.Agent)
	w.admin("", w.delete("anew", "Secret", names.SystemNamespace, "fleet-agent-bootstrap"))
	w.later(time.Hour)
	w.expectServing(west, "west")
	w.expectRequests("request-west-1")
	rulestest.ExpectEqual(w.t, "identity of the agent that is there", find[corev1.Secret](w, "west", names.SystemNamespace, names.Agent), before)
	if anew.serving {
		w.t.Error("the other one serves")
	}
}

// twoWests have the same client ID: one is registered, the other has made a request with another token.
func (w *world) twoWests() (west, anew *agent) {
	w.t.Helper()
	west, anew = w.agent("west"), w.agent("anew")
	w.admin("", w.createCluster(rulestest.Workspace, "west", fleet.ClusterSpec{ClientID: "west-id"}), w.createToken("t1", 24*time.Hour), w.createToken("t2", 24*time.Hour))
	w.admin("helm install", w.helmInstall("west", "t1", config.Agent{ClientID: "west-id"}))
	w.expectServing(west, "west")
	w.later(time.Minute)
	w.admin("helm install", w.helmInstall("anew", "t2", config.Agent{ClientID: "west-id"}))
	w.expectRequests("request-anew-1", "request-west-1")
	return west, anew
}

// helmInstall installs an agent with the values of a token.
func (w *world) helmInstall(where, token string, configured config.Agent) func() {
	return func() {
		secret := find[corev1.Secret](w, onHub, rulestest.Workspace, token)
		if secret == nil {
			w.t.Fatalf("token %s has no values", token)
		}
		bootstrap, err := protocol.ParseBootstrap(secret.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		w.install(where, names.SystemNamespace, &bootstrap, configured)
	}
}

func (w *world) createToken(name string, ttl time.Duration) func() {
	return func() {
		w.put(onHub, &fleet.ClusterRegistrationToken{
			ObjectMeta: metav1.ObjectMeta{Namespace: rulestest.Workspace, Name: name},
			Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: ttl}},
		})
	}
}

func (w *world) createCluster(namespace, name string, spec fleet.ClusterSpec) func() {
	return func() {
		w.put(onHub, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec})
	}
}

func (w *world) delete(cluster, kind, namespace, name string) func() {
	return func() {
		at := place{cluster, kind, namespace, name}
		if w.objects[at] == nil {
			w.t.Fatalf("there is no %s to delete", at)
		}
		w.remove(at)
	}
}

// expectServing checks the end of a successful flow.
func (w *world) expectServing(a *agent, cluster string) {
	w.t.Helper()
	w.expectServingIn(a, rulestest.Workspace, cluster)
}

func (w *world) expectServingIn(a *agent, namespace, name string) {
	w.t.Helper()
	cluster := find[fleet.Cluster](w, onHub, namespace, name)
	if !a.serving || cluster == nil || cluster.Status.Agent.LastSeen.IsZero() {
		w.t.Fatalf("the agent of %s/%s does not serve:\n%s", namespace, name, w.story.String())
	}
	if !a.readsContents() {
		w.t.Fatalf("the agent of %s/%s may not read what it is to deploy:\n%s", namespace, name, w.story.String())
	}
}

// expectRequests checks which requests remain.
func (w *world) expectRequests(want ...string) {
	w.t.Helper()
	var left []string
	for _, request := range list[fleet.ClusterRegistration](w, onHub) {
		left = append(left, request.Name)
	}
	rulestest.ExpectEqual(w.t, "requests", left, want)
}
