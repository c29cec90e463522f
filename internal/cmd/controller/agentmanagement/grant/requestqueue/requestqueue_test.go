package requestqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func request(name, client string) *fleet.ClusterRegistration {
	return rulestest.ARequest(func(r *fleet.ClusterRegistration) {
		r.Name, r.UID, r.Spec.ClientID = name, types.UID("u-"+name), client
	})
}

// waiting computes from all requests which of them wait.
func waiting(all map[types.NamespacedName]*fleet.ClusterRegistration, tokenOf map[types.NamespacedName]string) map[types.NamespacedName]bool {
	var members []member
	for key, r := range all {
		members = append(members, memberOf(r, tokenOf[key]))
	}
	slices.SortFunc(members, func(a, b member) int { return compareEntries(a.entry, b.entry) })
	clients, tokens, waits := map[string]int{}, map[string]int{}, map[types.NamespacedName]bool{}
	for _, s := range members {
		if s.client == "" {
			continue
		}
		clients[s.client]++
		switch {
		case clients[s.client] > grant.OpenPerClient:
			waits[s.key] = !all[s.key].Status.Granted
		case s.inProgress:
			tokens[s.token]++
			waits[s.key] = tokens[s.token] > grant.OpenPerToken
		}
	}
	return waits
}

func TestQueueInAnyOrder_OldestHaveThePlaces(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	queue, all := New(), map[types.NamespacedName]*fleet.ClusterRegistration{}
	tokenOf := map[types.NamespacedName]string{} // a token appears, goes, and is created again
	for step := range 2500 {
		r := request(fmt.Sprint("r", random.IntN(700)), fmt.Sprint("c", random.IntN(40)))
		r.CreationTimestamp = metav1.Unix(int64(random.IntN(50)), 0)
		key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
		if there := all[key]; there != nil {
			r = there.DeepCopy()
		}
		before := waiting(all, tokenOf)
		var woken []types.NamespacedName
		switch random.IntN(6) {
		case 0:
			delete(all, key)
			woken = queue.Drop(key)
		case 1:
			r.Status.Granted, r.Annotations = true, map[string]string{annotation.LastSeenAtGrant: ""}
		case 2:
			r.Status.Conditions = []genericcondition.GenericCondition{
				{Type: conditions.Granted, Status: corev1.ConditionFalse, Reason: conditions.ReasonTakeoverPending},
			}
		}
		if _, there := all[key]; there || random.IntN(6) > 0 {
			all[key], tokenOf[key] = r, fmt.Sprint("t", random.IntN(2))
			woken = append(woken, queue.Put(r, tokenOf[key])...)
		}
		now := waiting(all, tokenOf)
		for one, r := range all {
			if got := queue.WaitsIn(r) != grant.NoQueue; got != now[one] {
				t.Fatalf("step %d: %s waits: %v, want %v", step, one, got, now[one])
			}
			if before[one] && !now[one] && one != key && !slices.Contains(woken, one) {
				t.Fatalf("step %d: %s has a place now and is not woken", step, one)
			}
		}
	}
	for key := range all {
		queue.Drop(key)
	}
	if len(queue.members)+len(queue.clients)+len(queue.tokens) > 0 {
		t.Errorf("something is left: %+v", queue)
	}
}

func TestRecoveryRequests_HaveTheirOwnPlaces(t *testing.T) {
	ordinary, recovery := request("r1", "c"), request("r2", "c")
	recovery.Annotations = map[string]string{annotation.AgentTicket: "ticket"}
	if one, other := memberOf(ordinary, "t1"), memberOf(recovery, "t1"); one.client == other.client {
		t.Errorf("both are requests of %q", one.client)
	}
}
