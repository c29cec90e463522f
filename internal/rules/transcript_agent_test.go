package rules_test

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// heartbeats is the time between two heartbeats.
const heartbeats = 15 * time.Minute

// agent is the agent of one downstream cluster, with its memory.
type agent struct {
	w         *world
	where     string
	namespace string
	deaf      bool // cannot fetch its credential from the hub
	silent    bool // the cluster is lost

	owner            string // of the key that signs its requests; empty if it has none
	serving, running bool
	requests         int
	pending          *registering.PendingRequest
	pendingFor       string // the import token the pending request was made with
	recovering       *registering.PendingRequest
	beat             time.Time
	said             string
}

// agent adds a downstream cluster, whose agent runs as soon as it is installed.
func (w *world) agent(where string) *agent {
	a := &agent{w: w, where: where, namespace: names.SystemNamespace}
	w.agents = append(w.agents, a)
	return a
}

func (a *agent) secret(name string) map[string][]byte {
	secret := find[corev1.Secret](a.w, a.where, a.namespace, name)
	if secret == nil {
		return nil
	}
	return secret.Data
}

// lastAnswer returns an answer that the hub has been giving for a while.
func (a *agent) lastAnswer(accepted bool) registering.LastAnswer {
	answer := registering.Rejected
	if accepted {
		answer = registering.Accepted
	}
	return registering.LastAnswer{Answer: answer, Since: a.w.now.Add(-time.Hour)}
}

// proven reports whether a bearer token may do what an agent does first.
func (a *agent) proven(bearer, deploymentNamespace string) bool {
	return a.w.may(bearer, "list", "bundledeployments", deploymentNamespace, "")
}

// readsContents reports whether a serving agent may read the Contents that it deploys.
func (a *agent) readsContents() bool {
	identity, err := protocol.ParseIdentity(a.secret(names.Agent))
	if err != nil {
		return false
	}
	_, bearer, _ := strings.Cut(string(identity.Kubeconfig), " ")
	return a.w.may(bearer, "get", "contents", "", "s-1")
}

// look gathers the input of the agent's next step.
func (a *agent) look() registering.Input {
	state := registering.Input{Now: a.w.now, Serving: a.serving, Running: a.running}
	if data := a.secret(names.Agent); data != nil {
		identity, err := protocol.ParseIdentity(data)
		if state.StoredProblem = err; err == nil {
			server, bearer, _ := strings.Cut(string(identity.Kubeconfig), " ")
			state.Stored = &registering.StoredIdentity{Server: server, LastAnswer: a.lastAnswer(a.proven(bearer, identity.DeploymentNamespace))}
		}
	}
	if kept, access := a.kept(); kept != nil {
		state.Recovery = &registering.Recovery{Server: access.APIServerURL, CanRequest: true, Since: a.w.now.Add(-time.Hour)}
		state.Recovery.Attempt = a.attempt(access, a.recovering)
	}
	data := a.secret(names.AgentBootstrap)
	if data == nil {
		return state
	}
	bootstrap, err := protocol.ParseBootstrap(data)
	if state.BootstrapProblem = err; err != nil {
		return state
	}
	pending := a.pending
	if a.pendingFor != bootstrap.Token {
		pending = nil
	}
	state.Bootstrap, state.Attempt = &bootstrap, a.attempt(bootstrap, pending)
	return state
}

// attempt describes what came of a pending request, which may be nil.
func (a *agent) attempt(access protocol.Bootstrap, pending *registering.PendingRequest) registering.Attempt {
	at := registering.Attempt{TokenAnswer: a.lastAnswer(a.w.accountOf(access.Token) != nil), Request: pending}
	answer := a.answer(access, pending)
	if answer == nil {
		return at
	}
	credential, err := protocol.ParseCredential(answer)
	if err != nil {
		a.w.t.Errorf("a credential that no agent can use: %v", err)
	}
	at.Credential, at.CredentialAnswer = &credential, a.lastAnswer(a.proven(credential.Token, credential.DeploymentNamespace))
	return at
}

// answer returns the data of the credential Secret of a pending request, or nil.
func (a *agent) answer(access protocol.Bootstrap, pending *registering.PendingRequest) map[string][]byte {
	if pending == nil || a.deaf {
		return nil
	}
	secret := names.CredentialSecret(pending.ClientID, pending.ClientRandom)
	if !a.w.may(access.Token, "get", "secrets", access.SystemRegistrationNamespace, secret) {
		return nil
	}
	answer := find[corev1.Secret](a.w, onHub, access.SystemRegistrationNamespace, secret)
	if answer == nil {
		return nil
	}
	sealed := answer.Data[protocol.EncryptedKey]
	if sealed == nil {
		return answer.Data
	}
	document, err := signed.key(a.owner).Open(string(sealed))
	if err != nil {
		return nil // it is for another agent of the workspace
	}
	data, err := protocol.ParseAnswer(document)
	if err != nil {
		a.w.t.Errorf("an answer that no agent can use: %v", err)
	}
	return data
}

// kept returns what the agent recovers with, or nil.
func (a *agent) kept() (*protocol.RecoveryData, protocol.Bootstrap) {
	secret := find[corev1.Secret](a.w, a.where, metav1.NamespaceSystem, names.RecoverySecret(a.namespace))
	if secret == nil {
		return nil, protocol.Bootstrap{}
	}
	kept := protocol.ParseRecoveryData(secret.Data)
	access, complete := kept.Access()
	if !complete {
		a.w.t.Errorf("what agent %s keeps is incomplete: %+v", a.where, kept)
	}
	return &kept, access
}

// step gathers the input, calls the rule, and carries out the outcome.
func (a *agent) step() bool {
	if a.silent || find[appsv1.Deployment](a.w, a.where, a.namespace, names.Agent) == nil {
		return false // lost, or not installed
	}
	state := a.look()
	step := ask(a.w, registering.Decide, state)
	a.serving = step.Stage == registering.Use
	a.running = a.running || a.serving || step.Stage == registering.Request
	switch step.Stage {
	case registering.Use:
		return a.w.do("agent "+a.where, "Use", func() { a.use(state, step) })
	case registering.Request:
		if step.Recovery {
			return a.w.do("agent "+a.where, "Recovery", a.requestRecovery)
		}
		return a.w.do("agent "+a.where, "Request", func() { a.request(*state.Bootstrap) })
	case registering.GiveUp:
		a.running, a.pending, a.recovering = false, nil, nil // the process ends and is started again
	}
	a.say(step)
	return false
}

// say records once what an agent is waiting for.
func (a *agent) say(step registering.Outcome) {
	what, reason := fmt.Sprint(step.Stage, " ", step.Awaited), ""
	if step.Err != nil {
		reason, _, _ = strings.Cut(strings.ReplaceAll(step.Err.Error(), ";", ":"), ":")
	}
	if a.said != what+reason && reason != "" {
		a.w.tell("agent "+a.where, string(step.Stage), []string{"(" + reason + ")"})
	}
	a.said = what + reason
}

func (a *agent) request(bootstrap protocol.Bootstrap) {
	if !a.w.may(bootstrap.Token, "create", "clusterregistrations", bootstrap.ClusterNamespace, "") {
		return // its RBAC objects do not exist yet
	}
	configured, _, err := config.ParseAgent(find[corev1.ConfigMap](a.w, a.where, a.namespace, names.Agent).Data[names.ConfigKey])
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.pendingFor = bootstrap.Token
	a.pending = a.create(registering.RequestInput{Bootstrap: bootstrap, Config: configured, SystemUID: "kube-system of " + a.where}, "")
}

// requestRecovery makes a request with the recovery token and the ticket.
func (a *agent) requestRecovery() {
	kept, access := a.kept()
	if !a.w.may(access.Token, "create", "clusterregistrations", access.ClusterNamespace, "") {
		return
	}
	ticket, err := identity.VerifyTicket(kept.HubKey, kept.Ticket)
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.recovering = a.create(registering.RequestInput{
		Bootstrap: access, Config: config.Agent{ClientID: ticket.ClientID, Labels: ticket.Labels}, Ticket: kept.Ticket,
	}, identity.Thumbprint(kept.HubKey))
}

// create creates a request, signed if the agent has a key.
func (a *agent) create(in registering.RequestInput, hub string) *registering.PendingRequest {
	a.requests++
	in.Random, in.Pod = fmt.Sprintf("random %d of %s", a.requests, a.where), "fleet-agent-"+a.where
	request := registering.NewRequest(in)
	request.Name, request.GenerateName = fmt.Sprintf("%s%s-%d", request.GenerateName, a.where, a.requests), ""
	if a.owner != "" {
		metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentKey, signed.key(a.owner).Public())
		metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentProof, a.w.proof(a.owner, request, in.Bootstrap.Token, hub))
	}
	a.w.put(onHub, request)
	return &registering.PendingRequest{
		Namespace: request.Namespace, Name: request.Name, ClientID: request.Spec.ClientID, ClientRandom: request.Spec.ClientRandom,
		MadeAt: a.w.now,
	}
}

// use stores a new identity, drops the bootstrap Secret, and sends a heartbeat when it is due.
func (a *agent) use(state registering.Input, step registering.Outcome) {
	if step.Store && step.Recovery {
		_, access := a.kept()
		a.store(access, *state.Recovery.Credential, a.recovering)
		a.recovering = nil
	} else if step.Store {
		a.store(*state.Bootstrap, *state.Credential, a.pending)
		a.pending = nil
	}
	if step.DropBootstrap {
		a.w.remove(place{a.where, "Secret", a.namespace, names.AgentBootstrap})
	}
	if a.beat.IsZero() || a.w.now.Sub(a.beat) >= heartbeats {
		a.heartbeat()
	}
}

// store stores a new identity, and what the hub has given for a recovery.
func (a *agent) store(access protocol.Bootstrap, c protocol.Credential, request *registering.PendingRequest) {
	given, err := protocol.ParseRecovery(a.answer(access, request))
	a.w.put(a.where, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: names.Agent},
		Data: protocol.Identity{
			Kubeconfig:          []byte(access.APIServerURL + " " + c.Token),
			DeploymentNamespace: c.DeploymentNamespace, ClusterNamespace: c.ClusterNamespace, ClusterName: c.ClusterName,
		}.Encode(),
	})
	a.beat = time.Time{}
	if a.owner == "" || err != nil {
		return
	}
	a.w.put(a.where, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names.RecoverySecret(a.namespace)},
		Data: protocol.RecoveryData{
			Recovery: given, APIServerURL: access.APIServerURL, ClusterNamespace: access.ClusterNamespace,
			SystemRegistrationNamespace: access.SystemRegistrationNamespace, ClientID: request.ClientID,
		}.Encode(),
	})
}

func (a *agent) heartbeat() {
	identity, err := protocol.ParseIdentity(a.secret(names.Agent))
	if err != nil {
		a.w.t.Errorf("an agent serves without an identity: %v", err)
		return
	}
	_, bearer, _ := strings.Cut(string(identity.Kubeconfig), " ")
	cluster := find[fleet.Cluster](a.w, onHub, identity.ClusterNamespace, identity.ClusterName)
	if cluster == nil || !a.w.may(bearer, "patch", "clusters/status", identity.ClusterNamespace, identity.ClusterName) {
		return
	}
	if a.w.may(bearer, "patch", "clusters/status", identity.ClusterNamespace, "another") || a.w.may(bearer, "create", "clusterregistrations", identity.ClusterNamespace, "") {
		a.w.t.Error("an agent may do more than speak for its own Cluster")
	}
	a.beat, a.w.speakers[identity.ClusterName] = a.w.now, string(a.w.accountOf(bearer).UID)
	cluster.Status.Agent = fleet.AgentStatus{LastSeen: metav1.Time{Time: a.w.now}, Namespace: a.namespace}
	a.w.put(onHub, cluster)
}
