package grant

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/grant/requestqueue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// agents is less than a large hub has, because most of the time signatures are verified.
var agents = flag.Int("agents", 1000, "number of agents that recover at a restored hub")

// returning are the agents of one workspace that recover at a restored hub. The objects that the controllers of other
// packages write are written here.
type returning struct {
	t    *testing.T
	hub  *hubtest.Hub
	keys map[string]identity.Key // by client ID
	// ready are the requests that the work queue holds, working those that caused a write and are not granted.
	ready, working map[string]bool
	most           int
}

// lose returns a recovery request of an agent. Its Cluster is in the backup if the agent joined before.
func (r *returning) lose(i int, joinedBefore bool) *fleet.ClusterRegistration {
	r.t.Helper()
	key, client, name := newKey(r.t), fmt.Sprintf("client-%05d", i), fmt.Sprintf("c%05d", i)
	r.keys[client] = key
	if joinedBefore {
		r.hub.Put(cluster(pinnedTo(key), seen(r.hub.Now().Add(-time.Hour)), func(c *fleet.Cluster) {
			c.Name, c.UID, c.Spec.ClientID = name, types.UID("u-"+name), client
			c.Status.Namespace = names.ClusterNamespace("ws", name)
		}))
	}
	return r.request(fmt.Sprintf("r%05d", i), client, name)
}

// request puts a recovery request on the hub.
func (r *returning) request(name, client, of string) *fleet.ClusterRegistration {
	r.t.Helper()
	key, hub := r.keys[client], r.hub.App.Recoveries.Key()
	asked := request(named(name), ofClient(client))
	asked.Labels, asked.CreationTimestamp = nil, metav1.NewTime(r.hub.Now())
	proof, err := key.Prove(identity.Claims{ClientID: client, ClientRandom: asked.Spec.ClientRandom, Account: "u-recovery", Hub: identity.Thumbprint(hub.Public())})
	if err != nil {
		r.t.Fatal(err)
	}
	ticket, err := hub.SignTicket(identity.Ticket{Workspace: "ws", Cluster: of, ClientID: client, Key: identity.Thumbprint(key.Public()), Time: r.hub.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	asked.Annotations = map[string]string{annotation.AgentKey: key.Public(), annotation.AgentProof: proof, annotation.AgentTicket: ticket}
	r.hub.Put(asked)
	r.ready[name] = true
	return asked
}

// round handles all requests that are ready. Those that caused a write are ready again, because a watch reports the write.
func (r *returning) round() {
	r.t.Helper()
	now := slices.Sorted(maps.Keys(r.ready))
	r.ready = map[string]bool{}
	for _, name := range now {
		if err := r.hub.Handle(kindRequest, "ws/"+name); err != nil {
			r.t.Fatal(err)
		}
		if len(r.hub.Requests()) > 0 {
			r.ready[name], r.working[name] = true, true
		}
		if hubtest.MustGet[*fleet.ClusterRegistration](r.t, r.hub, "ws", name).Status.Granted {
			delete(r.working, name)
		}
		r.most = max(r.most, len(r.working))
		r.hub.Told()
	}
	for name := range r.working {
		r.giveNamespace(name)
	}
	r.hub.Follow()
	for _, line := range r.hub.Woken() {
		if name, is := strings.CutPrefix(line, kindRequest+" ws/"); is && !strings.Contains(name, " ") { // others are timeouts
			r.ready[name] = true
		}
	}
}

// giveNamespace writes the namespace of a request's Cluster, if the grant created it.
func (r *returning) giveNamespace(request string) {
	name := "c" + request[1:6]
	created := hubtest.Get[*fleet.Cluster](r.hub, "ws", name)
	if created == nil || created.Status.Namespace != "" {
		return
	}
	created.Status.Namespace = names.ClusterNamespace("ws", name)
	r.hub.Put(created)
	r.ready[request] = true
}

func TestAgentsOfARestoredHub_AllReturnAHundredAtATime(t *testing.T) {
	hub := recoverable(t, contentreaders.DesiredForAll())
	hub.App.Log, hub.App.Env.AllReadContents = slog.New(slog.DiscardHandler), true
	r := &returning{t: t, hub: hub, keys: map[string]identity.Key{}, ready: map[string]bool{}, working: map[string]bool{}}
	count := *agents
	all := map[string]*fleet.ClusterRegistration{}
	for i := range count {
		asked := r.lose(i, i%2 == 0)
		all[asked.Name] = asked
		if i%10 < 2 { // an agent that was restarted asks again
			again := r.request(asked.Name+"-again", asked.Spec.ClientID, fmt.Sprintf("c%05d", i))
			all[again.Name] = again
		}
	}
	hub.Requests()
	rounds := 0
	for ; len(r.ready) > 0; rounds++ {
		r.round()
	}
	if r.most > grant.OpenPerToken || r.most < grant.OpenPerToken/2 {
		t.Errorf("the hub worked on %d requests at a time, want at most %d", r.most, grant.OpenPerToken)
	}
	t.Logf("%d requests of %d agents in %d rounds, at most %d at a time", len(all), count, rounds, r.most)
	r.expectAnswers(all)
	r.expectOneClusterEach(count)
}

// The same with the number of agents of a large hub, and without signatures: each request is granted when it has a place.
func TestTenThousandRecoveries_HaveAPlaceInTheOrderOfTheirAge(t *testing.T) {
	const count = 10_000
	queue, noon := requestqueue.New(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var waiting []*fleet.ClusterRegistration
	for i := range count {
		asked := request(named(fmt.Sprintf("r%05d", i)), ofClient(fmt.Sprintf("client-%05d", i)))
		asked.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i) * time.Second))
		asked.Annotations = map[string]string{annotation.AgentTicket: "ticket"}
		waiting = append(waiting, asked)
		queue.Put(asked, names.Recovery)
	}
	for turn := 0; len(waiting) > 0; turn++ {
		hasPlace := slices.IndexFunc(waiting, func(r *fleet.ClusterRegistration) bool { return queue.WaitsIn(r) != grant.NoQueue })
		if hasPlace < 0 {
			hasPlace = len(waiting)
		}
		if hasPlace != min(grant.OpenPerToken, len(waiting)) {
			t.Fatalf("turn %d: %d requests have a place", turn, hasPlace)
		}
		woken := map[string]bool{}
		for _, asked := range waiting[:hasPlace] {
			asked.Status.Granted = true
			for _, key := range queue.Put(asked, names.Recovery) {
				woken[key.Name] = true
			}
		}
		if waiting = waiting[hasPlace:]; len(waiting) > 0 && (!woken[waiting[0].Name] || len(woken) != min(grant.OpenPerToken, len(waiting))) {
			t.Fatalf("turn %d: %d requests are woken, %s: %t", turn, len(woken), waiting[0].Name, woken[waiting[0].Name])
		}
	}
}

// expectAnswers fails unless each request has an answer for the key of its agent.
func (r *returning) expectAnswers(all map[string]*fleet.ClusterRegistration) {
	r.t.Helper()
	for name, asked := range all {
		secret := hubtest.Get[*corev1.Secret](r.hub, registration, names.CredentialSecret(asked.Spec.ClientID, asked.Spec.ClientRandom))
		if secret == nil {
			r.t.Fatalf("request %s has no answer: %+v", name, hubtest.Get[*fleet.ClusterRegistration](r.hub, "ws", name).Status)
		}
		document, err := r.keys[asked.Spec.ClientID].Open(string(secret.Data[protocol.EncryptedKey]))
		if err != nil {
			r.t.Fatalf("answer to %s: %v", name, err)
		}
		data, err := protocol.ParseAnswer(document)
		if err != nil {
			r.t.Fatalf("answer to %s: %v", name, err)
		}
		if got, err := protocol.ParseCredential(data); err != nil || got.ClusterName != "c"+name[1:6] {
			r.t.Fatalf("answer to %s is for Cluster %s, %v", name, got.ClusterName, err)
		}
	}
}

// expectOneClusterEach fails unless each client ID has the Cluster that it had before.
func (r *returning) expectOneClusterEach(count int) {
	r.t.Helper()
	found, err := r.hub.App.Clusters.List("ws", metav1.ListOptions{})
	if err != nil || len(found.Items) != count {
		r.t.Fatalf("%d Clusters, %v, want %d", len(found.Items), err, count)
	}
	for i := range found.Items {
		if c := &found.Items[i]; c.Spec.ClientID != "client-"+c.Name[1:] || c.Annotations[annotation.AgentKey] != r.keys[c.Spec.ClientID].Public() {
			r.t.Errorf("Cluster %s has client ID %s and key %s", c.Name, c.Spec.ClientID, c.Annotations[annotation.AgentKey])
		}
	}
}
