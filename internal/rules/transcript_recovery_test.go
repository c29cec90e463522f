package rules_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/recovery"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// signatures keeps keys by their owner, and what was signed or encrypted with them by its content. A signature is made
// only once for all worlds, because two of the same content differ.
type signatures struct {
	mu   sync.Mutex
	keys map[string]identity.Key
	made map[string]string
}

var signed = &signatures{keys: map[string]identity.Key{}, made: map[string]string{}}

// key returns the key of the hub or of an agent.
func (s *signatures) key(owner string) identity.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, exists := s.keys[owner]
	if !exists {
		var err error
		if key, err = identity.NewKey(rand.Reader); err != nil {
			panic(err)
		}
		s.keys[owner] = key
	}
	return key
}

// once returns what sign returned for this content the first time.
func (s *signatures) once(content string, sign func() (string, error)) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[content] == "" {
		text, err := sign()
		if err != nil {
			panic(err)
		}
		s.made[content] = text
	}
	return s.made[content]
}

// proof returns the signature of an agent under its request for the account of a token.
func (w *world) proof(owner string, request *fleet.ClusterRegistration, bearer, hub string) string {
	w.t.Helper()
	token, err := protocol.ParseAccountToken(bearer)
	if err != nil {
		w.t.Fatal(err)
	}
	claims := identity.Claims{ClientID: request.Spec.ClientID, ClientRandom: request.Spec.ClientRandom, Account: token.AccountUID, Hub: hub}
	key := signed.key(owner)
	return signed.once(fmt.Sprintf("proof %s %+v", owner, claims), func() (string, error) { return key.Prove(claims) })
}

// accounts creates the recovery account of each workspace with a Cluster.
func (w *world) accounts() bool {
	var writes []func()
	for _, cluster := range list[fleet.Cluster](w, onHub) {
		for _, o := range recovery.Account(cluster.Namespace) {
			writes = append(writes, func() { w.put(onHub, o.(object)) })
		}
	}
	return w.do("recovery", "Account", writes...)
}

// addRecovery adds to a credential Secret what its agent needs to return after a loss, and encrypts the answer to a
// recovery request.
func (w *world) addRecovery(secret *corev1.Secret, in grant.Input, out grant.Outcome) {
	if out.Key == "" {
		return
	}
	account := find[corev1.ServiceAccount](w, onHub, in.Request.Namespace, names.Recovery)
	cluster, hub := grant.ClusterOf(in), signed.key(onHub)
	ticket := identity.Ticket{
		Workspace: cluster.Namespace, Cluster: cluster.Name, Labels: maps.Clone(cluster.Labels), ClientID: cluster.Spec.ClientID,
		Key: identity.Thumbprint(out.Key), Time: w.now,
	}
	grant.AddRecovery(secret, protocol.Recovery{
		Token:  rulestest.BoundJWT(string(account.UID), time.Time{}),
		Ticket: signed.once(fmt.Sprintf("ticket %+v", ticket), func() (string, error) { return hub.SignTicket(ticket) }),
		HubKey: hub.Public(), WorkspaceKey: hub.WorkspaceKey(cluster.Namespace),
	})
	if !out.Sealed {
		return
	}
	document, err := protocol.EncodeData(secret.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	secret.Data = map[string][]byte{protocol.EncryptedKey: []byte(signed.once(out.Key+string(document), func() (string, error) {
		return identity.Seal(out.Key, document)
	}))}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotation.CredentialAccount, string(in.Account.UID))
}

// gatherRecovery adds what the hub knows about a signed request, and about a recovery request.
func (w *world) gatherRecovery(in *grant.Input) {
	request := in.Request
	if !requests.IsRecovery(request) {
		if token := grant.Signer(*in); token != nil {
			if account := find[corev1.ServiceAccount](w, onHub, token.Namespace, names.ImportAccount(token.Name, string(token.UID))); account != nil {
				in.ReaderAccount = string(account.UID)
			}
		}
		return
	}
	in.NamedToken, in.Recovery = nil, grant.Recovery{Hub: signed.key(onHub).Public(), Readmit: true}
	if account := find[corev1.ServiceAccount](w, onHub, request.Namespace, names.Recovery); account != nil {
		in.ReaderAccount = string(account.UID)
	}
	if ticket, ok := grant.TicketOf(request, in.Recovery.Hub); ok {
		in.Recovery.Named = find[fleet.Cluster](w, onHub, ticket.Workspace, ticket.Cluster)
		deleted, isBlocked := w.blocked[place{onHub, "Cluster", ticket.Workspace, ticket.Cluster}]
		in.Recovery.Deleted = isBlocked && !ticket.Time.After(deleted)
	}
}

// recordRecovery records on the Cluster who has recovered it, and whose key is to be pinned.
func (w *world) recordRecovery(in grant.Input, out grant.Outcome) {
	cluster := find[fleet.Cluster](w, onHub, in.Request.Namespace, out.ClusterName)
	if cluster == nil {
		return
	}
	if out.RecoveredBy != "" {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, annotation.RecoveredBy, out.RecoveredBy)
	}
	if out.Join != nil {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, annotation.AgentKey, out.Join.Key)
	}
	w.put(onHub, cluster)
}

// backup is the content of a hub at a moment.
type backup struct {
	objects  map[place]object
	sets     map[place]place
	speakers map[string]string
}

func (w *world) backup() backup {
	saved := backup{objects: map[place]object{}, sets: maps.Clone(w.sets), speakers: maps.Clone(w.speakers)}
	for at, o := range w.objects {
		if at.cluster == onHub {
			saved.objects[at] = o.DeepCopyObject().(object)
		}
	}
	return saved
}

// restore resets the hub to a backup. Objects that are created later have UIDs of their own.
func (w *world) restore(saved backup) {
	for _, at := range w.places() {
		if at.cluster == onHub && saved.objects[at] == nil {
			w.remove(at)
		}
	}
	for _, at := range sortedPlaces(saved.objects) {
		if o := saved.objects[at]; !reflect.DeepEqual(w.objects[at], o) {
			w.objects[at] = o.DeepCopyObject().(object)
			w.ops = append(w.ops, "= "+at.String())
		}
	}
	w.sets, w.speakers = maps.Clone(saved.sets), maps.Clone(saved.speakers)
}

// recoveryFlows are the ways in which an agent with a key returns after a loss.
func recoveryFlows() map[string]func(*world) {
	return map[string]func(*world){
		"recovery-of-a-lost-secret":      recoveryOfLostSecret,
		"recovery-of-a-deleted-account":  recoveryOfDeletedAccount,
		"recovery-on-a-restored-hub":     recoveryOnRestoredHub,
		"recovery-of-a-copied-cluster":   recoveryOfCopiedCluster,
		"recovery-for-a-deleted-cluster": recoveryForDeletedCluster,
	}
}

// joinWithKey lets an agent with a key join a hub that has one, a while ago.
func (w *world) joinWithKey() *agent {
	w.t.Helper()
	w.keeps = true
	west := w.agent("west")
	west.owner = "west"
	w.admin("", w.createToken("t1", 24*time.Hour))
	w.admin("helm install", w.helmInstall("west", "t1", config.Agent{Labels: map[string]string{"env": "prod"}}))
	w.expectServing(west, westCluster())
	w.later(20 * time.Minute)
	w.expectKey(west)
	w.later(time.Minute) // so that the next heartbeat differs
	return west
}

func (w *world) expectKey(a *agent) {
	w.t.Helper()
	pinned := find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster()).Annotations[annotation.AgentKey]
	rulestest.ExpectEqual(w.t, "the pinned key", pinned, signed.key(a.owner).Public())
}

// deleteIdentity deletes Secret fleet-agent.
func (w *world) deleteIdentity(a *agent) func() {
	return w.delete(a.where, "Secret", a.namespace, names.Agent)
}

// recoveryOfLostSecret: an agent loses its Secret. It returns to its Cluster with its key, and nobody confirms it.
func recoveryOfLostSecret(w *world) {
	west := w.joinWithKey()
	before := find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster())
	w.admin("", w.deleteIdentity(west))
	w.expectServing(west, westCluster())
	rulestest.ExpectEqual(w.t, "UID of the cluster", find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster()).UID, before.UID)
	w.expectRequests("request-west-2")
}

// recoveryOfDeletedAccount: the account of an agent is deleted. Its tokens are worthless, and it gets another account.
func recoveryOfDeletedAccount(w *world) {
	west := w.joinWithKey()
	w.admin("", w.delete(onHub, "ServiceAccount", names.ClusterNamespace(rulestest.Workspace, westCluster()), "request-west-1-u1"))
	w.expectServing(west, westCluster())
	w.expectRequests("request-west-2")
}

// recoveryOnRestoredHub: a hub is restored to before an agent joined. It creates the Cluster again from the ticket, with
// the labels and the key.
func recoveryOnRestoredHub(w *world) {
	w.keeps = true
	w.admin("", w.createCluster(rulestest.Workspace, "first", fleet.ClusterSpec{ClientID: "first-id"})) // so that there is a recovery account
	saved := w.backup()
	west := w.joinWithKey()
	before := find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster())
	w.admin("restores the hub", func() { w.restore(saved) })
	w.expectServing(west, westCluster())
	after := find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster())
	rulestest.ExpectEqual(w.t, "labels of the cluster", after.Labels, before.Labels)
	rulestest.ExpectEqual(w.t, "its namespace", after.Status.Namespace, before.Status.Namespace)
	w.expectKey(west)
	w.expectRequests("request-west-2")
}

// recoveryOfCopiedCluster: a cluster with its agent is copied. The two recover in turn, until the hub stops that. The
// operator stops the copy and confirms the other one.
func recoveryOfCopiedCluster(w *world) {
	west := w.joinWithKey()
	other := w.agent("copy")
	other.owner = west.owner
	w.admin("copies west", func() {
		for _, at := range w.places() {
			if at.cluster == west.where {
				w.put(other.where, w.objects[at])
			}
		}
	})
	w.expectServing(other, westCluster())
	w.later(time.Minute) // so that the next heartbeat differs
	other.silent = true
	w.admin("", w.deleteIdentity(west))
	w.expectServing(west, westCluster())
	w.later(time.Minute)
	w.admin("hears only of the copy", func() { other.silent, west.silent = false, true })
	w.expectServing(other, westCluster())
	w.admin("hears of both", func() { west.silent = false })
	w.expectRequests("request-copy-1", "request-west-3")
	w.admin("stops the copy", func() { other.silent, other.serving = true, false })
	w.later(time.Minute)
	w.admin("confirms", func() {
		cluster := find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster())
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, annotation.ConfirmTakeover, "request-west-3")
		w.put(onHub, cluster)
	})
	w.expectServing(west, westCluster())
	w.expectRequests("request-west-3")
}

// recoveryForDeletedCluster: a Cluster is deleted. Its agent does not return with its ticket.
func recoveryForDeletedCluster(w *world) {
	west := w.joinWithKey()
	w.admin("", func() { w.deleteAt(place{onHub, "Cluster", rulestest.Workspace, westCluster()}) })
	w.later(time.Minute)
	w.expectRequests()
	if west.serving || find[fleet.Cluster](w, onHub, rulestest.Workspace, westCluster()) != nil {
		w.t.Error("the agent has returned")
	}
	for _, role := range list[rbacv1.Role](w, onHub) {
		if role.Annotations[fleet.AnnotationClusterRegistration] != "" {
			w.t.Errorf("Role %s/%s is left", role.Namespace, role.Name)
		}
	}
}
