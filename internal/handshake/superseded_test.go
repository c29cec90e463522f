package handshake_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestGrantSupersedes(t *testing.T) {
	forever := boundJWT("account-1", time.Time{})
	used := at(-10 * time.Second) // a heartbeat after the grant
	before := at(-time.Hour)      // one before it
	older := func(name string, modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
		return aRequest(append([]func(*fleet.ClusterRegistration){requestNamed(name), requestMadeAt(at(-time.Hour)), requestGranted}, modifiers...)...)
	}
	tests := map[string]struct {
		seen     *fleet.Cluster
		noted    *string
		others   []*fleet.ClusterRegistration
		modified []func(*handshake.GrantInput)
		want     []string
	}{
		"older requests of the client, once the agent was seen with its new credential": {
			seen: aCluster(clusterSeen(used)), noted: ptr(before.Format(time.RFC3339)),
			others: []*fleet.ClusterRegistration{older("request-b"), older("request-a")}, want: []string{"request-a", "request-b"},
		},
		"also the ones that were never granted": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""),
			others: []*fleet.ClusterRegistration{aRequest(requestNamed("request-a"), requestMadeAt(before))}, want: []string{"request-a"},
		},
		"none before the first heartbeat: the old credential may be the one in use": {
			seen: aCluster(clusterSeen(before)), noted: ptr(before.Format(time.RFC3339)),
			others: []*fleet.ClusterRegistration{older("request-a")},
		},
		"none of an agent that was never seen": {
			seen: aCluster(), noted: ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
		},
		"none when the heartbeat was cleared by an import: that is no use of a credential": {
			seen: aCluster(), noted: ptr(before.Format(time.RFC3339)), others: []*fleet.ClusterRegistration{older("request-a")},
		},
		"none before the credential was handed out": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
			modified: []func(*handshake.GrantInput){func(in *handshake.GrantInput) { in.Credential = nil }},
		},
		"none while the rights are being healed": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
			modified: []func(*handshake.GrantInput){func(in *handshake.GrantInput) { in.RightsExist = false }},
		},
		"a request that was granted before there were notes ends the older ones at once": {
			seen: aCluster(), others: []*fleet.ClusterRegistration{older("request-a")}, want: []string{"request-a"},
		},
		"never itself, a newer one, or one of another client": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""),
			others: []*fleet.ClusterRegistration{
				aRequest(), older("request-b", requestMadeAt(at(0))), older("request-c", requestClient("c2"), requestOf("west")),
			},
		},
		"one of the Cluster when that had another client ID": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""), others: []*fleet.ClusterRegistration{older("request-a", requestClient("c2"))}, want: []string{"request-a"},
		},
		"none when the heartbeat says that it is another account's": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
			modified: []func(*handshake.GrantInput){spokenBy("account-0")},
		},
		"older ones when it says that it is this one's": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""), others: []*fleet.ClusterRegistration{older("request-a")}, want: []string{"request-a"},
			modified: []func(*handshake.GrantInput){spokenBy("account-1")},
		},
		"registrations of the other implementation as any other": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""), want: []string{"request-a"},
			others: []*fleet.ClusterRegistration{older("request-a", func(r *fleet.ClusterRegistration) { r.Annotations, r.Status.Conditions = nil, nil })},
		},
		"never one that waits for the same credential": {
			seen: aCluster(clusterSeen(used)), noted: ptr(""),
			others: []*fleet.ClusterRegistration{older("request-b", func(r *fleet.ClusterRegistration) { r.Spec.ClientRandom = "random-1" })},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			permute(test.others, func(others []*fleet.ClusterRegistration) {
				in := grantInput(with(requestGranted), func(in *handshake.GrantInput) { in.Named, in.Others = test.seen, others }, requestAccount, requestRights)
				if test.noted != nil {
					requestNoted(*test.noted)(in.Request)
				}
				credential(forever)(&in)
				build(&in, test.modified)
				expectEqual(t, "superseded", pure(t, handshake.Grant, in).Superseded, test.want, cmpopts.EquateEmpty())
			})
		})
	}
}

// spokenBy means that this account has sent the last heartbeat.
func spokenBy(account string) func(*handshake.GrantInput) {
	return func(in *handshake.GrantInput) { in.Speaker = account }
}

// A request whose answer has ended unused, while another agent serves the Cluster, will never be used: it is removed.
func TestGrantEndsWhatIsNeverUsed(t *testing.T) {
	ended := func(modifiers ...func(*handshake.GrantInput)) handshake.GrantInput {
		live := aRequest(requestNamed("request-a"), requestMadeAt(at(-time.Hour)), requestGranted)
		return grantInput(append([]func(*handshake.GrantInput){
			with(requestGranted, requestNoted("")), named(clusterSeen(at(-time.Second))), requestAccount, requestRights, others(live), later(time.Hour),
		}, modifiers...)...)
	}
	tests := map[string]struct {
		in   handshake.GrantInput
		want handshake.GrantStage
	}{
		"once its answer has ended":                 {ended(spokenBy("account-0")), handshake.GrantAbandoned},
		"not while somebody may fetch it":           {ended(spokenBy("account-0"), credential(boundJWT("account-1", time.Time{}))), handshake.GrantDone},
		"not if it is the one in use":               {ended(spokenBy("account-1")), handshake.GrantDone},
		"not if nobody says whose the heartbeat is": {ended(), handshake.GrantDone},
		"not if there is no other":                  {ended(spokenBy("account-0"), func(in *handshake.GrantInput) { in.Others = nil }), handshake.GrantDone},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectEqual(t, "stage", pure(t, handshake.Grant, test.in).Stage, test.want)
		})
	}
}

func requestVersion(version string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.ResourceVersion = version }
}

// Of two requests of one client made in the same second exactly one is the older: never both are ended, and
// never none, whatever is known of their grants.
func TestGrantSupersedesOneOfTwo(t *testing.T) {
	second := at(-time.Minute)
	made := func(name string, modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
		return aRequest(append([]func(*fleet.ClusterRegistration){requestNamed(name), requestMadeAt(second), requestNoted("")}, modifiers...)...)
	}
	tests := map[string]struct {
		a, b *fleet.ClusterRegistration
		ends string
	}{
		"the one granted later stays":                {made("a", requestGrantedAt(at(-5*time.Second))), made("b", requestGrantedAt(at(-8*time.Second))), "b"},
		"also when its name is the first":            {made("a", requestGrantedAt(at(-8*time.Second))), made("b", requestGrantedAt(at(-5*time.Second))), "a"},
		"one that is in flight is the later":         {made("a"), made("b", requestGrantedAt(at(-5*time.Second))), "b"},
		"granted in the same second, the last stays": {made("a", requestGrantedAt(second)), made("b", requestGrantedAt(second)), "a"},
		"granted in the same second, the one written last stays": {
			made("a", requestGrantedAt(second), requestVersion("100")), made("b", requestGrantedAt(second), requestVersion("99")), "b",
		},
		"granted when there were no times": {made("a", requestGranted), made("b", requestGranted), "a"},
		"of different age the younger stays, however late the other was granted": {
			made("a", requestGrantedAt(second)), made("b", requestMadeAt(at(-time.Hour)), requestGrantedAt(at(0))), "b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ended := append(supersededBy(t, test.a, test.b), supersededBy(t, test.b, test.a)...)
			expectEqual(t, "ended", ended, []string{test.ends})
		})
	}
}

// supersededBy is what a request ends once its credential is in use, if there is another one.
func supersededBy(t *testing.T, request, other *fleet.ClusterRegistration) []string {
	t.Helper()
	in := grantInput(found(clusterSeen(at(-time.Second))), requestAccount, requestRights, others(request, other), func(in *handshake.GrantInput) { in.Request = request })
	if request.Status.Granted {
		in.Named = in.Clusters[0]
	}
	credential(boundJWT("account-1", time.Time{}))(&in)
	return pure(t, handshake.Grant, in).Superseded
}

// Being older is an order: of any number of requests of one client one stays, the same for all of them.
func TestGrantSupersedesAllButOne(t *testing.T) {
	var requests []*fleet.ClusterRegistration
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r := aRequest(requestNamed(name), requestMadeAt(at(-time.Duration(i/4)*time.Minute)), requestNoted(""))
		if i%4 > 0 {
			requestGrantedAt(at(-time.Duration(i%2) * time.Second))(r)
		}
		requests = append(requests, r)
	}
	var order []string
	for _, request := range requests {
		in := grantInput(found(clusterSeen(at(-time.Second))), requestAccount, requestRights, others(requests...), func(in *handshake.GrantInput) { in.Request = request })
		in.Named = in.Clusters[0]
		credential(boundJWT("account-1", time.Time{}))(&in)
		ended := pure(t, handshake.Grant, in).Superseded
		if slices.Contains(ended, request.Name) {
			t.Errorf("%s ends itself", request.Name)
		}
		for len(order) <= len(ended) {
			order = append(order, "")
		}
		if order[len(ended)] != "" {
			t.Errorf("%s and %s both end %v", order[len(ended)], request.Name, ended)
		}
		order[len(ended)] = request.Name
	}
	expectEqual(t, "from the oldest to the one that stays", order, []string{"f", "h", "g", "e", "b", "d", "c", "a"})
}
