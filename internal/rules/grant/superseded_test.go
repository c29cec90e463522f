package grant_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestGrant_SupersedesOlderRequestsAfterItsFirstUse(t *testing.T) {
	forever := rulestest.BoundJWT("account-1", time.Time{})
	used := rulestest.At(-10 * time.Second) // a heartbeat after the grant
	before := rulestest.At(-time.Hour)      // one before it
	sameSecond := rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(used))
	notedExpiry := before.UTC().Format(time.RFC3339) + " " + rulestest.At(0).UTC().Format(time.RFC3339)
	older := func(name string, modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
		return aRequest(append([]func(*fleet.ClusterRegistration){requestNamed(name), requestMadeAt(rulestest.At(-time.Hour)), requestGranted}, modifiers...)...)
	}
	const importUID = "i1"
	ofImport := func(owners ...metav1.OwnerReference) func(*grant.Input) {
		return func(in *grant.Input) { imported(in); in.Imported.UID, in.Imported.OwnerReferences = importUID, owners }
	}
	ofAgent := func(key, token string) func(*grant.Input) {
		return func(in *grant.Input) { requestOfAgent(key, token)(in.Request) }
	}
	newer := func(name, key, token string, modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
		made := []func(*fleet.ClusterRegistration){requestNamed(name), requestMadeAt(rulestest.At(0)), requestGranted, requestNoted(""), requestOfAgent(key, token)}
		return aRequest(append(made, modifiers...)...)
	}
	tests := map[string]struct {
		seen     *fleet.Cluster
		noted    *string
		others   []*fleet.ClusterRegistration
		modified []func(*grant.Input)
		want     []string
	}{
		"older requests, heartbeat after the grant: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(before.Format(time.RFC3339)),
			others: []*fleet.ClusterRegistration{older("request-b"), older("request-a")}, want: []string{"request-a", "request-b"},
		},
		"older request that was not granted, heartbeat after the grant: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others: []*fleet.ClusterRegistration{aRequest(requestNamed("request-a"), requestMadeAt(before))}, want: []string{"request-a"},
		},
		"no heartbeat since the grant: stay": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(before)), noted: rulestest.Ptr(before.Format(time.RFC3339)),
			others: []*fleet.ClusterRegistration{older("request-a")},
		},
		"no heartbeat at all: stay": {
			seen: rulestest.ACluster(), noted: rulestest.Ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
		},
		"heartbeat was cleared by an import: stay": {
			seen: rulestest.ACluster(), noted: rulestest.Ptr(before.Format(time.RFC3339)), others: []*fleet.ClusterRegistration{older("request-a")},
		},
		"no credential yet: stay": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
			modified: []func(*grant.Input){func(in *grant.Input) { in.Credential = nil }},
		},
		"rights are missing: stay": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
			modified: []func(*grant.Input){func(in *grant.Input) { in.RightsExist = false }},
		},
		"granted without a recorded heartbeat: superseded at once": {
			seen: rulestest.ACluster(), others: []*fleet.ClusterRegistration{older("request-a")}, want: []string{"request-a"},
		},
		"itself, a newer request, another client: stay": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others: []*fleet.ClusterRegistration{
				aRequest(), older("request-b", requestMadeAt(rulestest.At(0))), older("request-c", requestClient("c2"), requestOf("west")),
			},
		},
		"older request with the Cluster's former client ID: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), others: []*fleet.ClusterRegistration{older("request-a", requestClient("c2"))}, want: []string{"request-a"},
		},
		"heartbeat of another account: stay": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), others: []*fleet.ClusterRegistration{older("request-a")},
			modified: []func(*grant.Input){spokenBy("account-0")},
		},
		"heartbeat of this account: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), others: []*fleet.ClusterRegistration{older("request-a")}, want: []string{"request-a"},
			modified: []func(*grant.Input){spokenBy("account-1")},
		},
		"same second, this account, credentials expire at different times: superseded": {
			seen: sameSecond, noted: &notedExpiry, others: []*fleet.ClusterRegistration{older("request-a")}, want: []string{"request-a"},
			modified: []func(*grant.Input){spokenBy("account-1")},
		},
		"same second, another account, another credential: stay": {
			seen: sameSecond, noted: &notedExpiry, others: []*fleet.ClusterRegistration{older("request-a")},
			modified: []func(*grant.Input){spokenBy("account-0")},
		},
		"same second, same credential: stay": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(rulestest.At(0))), noted: &notedExpiry,
			others: []*fleet.ClusterRegistration{older("request-a")}, modified: []func(*grant.Input){spokenBy("account-1")},
		},
		"registration of Rancher Fleet: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), want: []string{"request-a"},
			others: []*fleet.ClusterRegistration{older("request-a", func(r *fleet.ClusterRegistration) { r.Annotations, r.Status.Conditions = nil, nil })},
		},
		"newer request of an agent with another key, granted at the same time: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), want: []string{"request-b"},
			others: []*fleet.ClusterRegistration{newer("request-b", "k2", "u1")}, modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1")},
		},
		"newer request of an agent without a key: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), want: []string{"request-b"},
			others: []*fleet.ClusterRegistration{newer("request-b", "", "u1")}, modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1")},
		},
		"newer request of the same agent: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others: []*fleet.ClusterRegistration{newer("request-b", "k1", "u2")}, modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1")},
		},
		"newer request with the same token, this agent has no key: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others: []*fleet.ClusterRegistration{newer("request-b", "k2", "u1")}, modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("", "u1")},
		},
		"newer request with another token, this agent has no key: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), want: []string{"request-b"},
			others: []*fleet.ClusterRegistration{newer("request-b", "", "u2")}, modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("", "u1")},
		},
		"newer request with the token of the Cluster's import: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others:   []*fleet.ClusterRegistration{newer("request-b", "k2", importUID)},
			modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1"), ofImport(metav1.OwnerReference{Kind: "Cluster", UID: "cluster-uid"})},
		},
		"newer request with a user's token of that name: superseded": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""), want: []string{"request-b"},
			others:   []*fleet.ClusterRegistration{newer("request-b", "k2", importUID)},
			modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1"), ofImport()},
		},
		"newer request that was confirmed later: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others:   []*fleet.ClusterRegistration{newer("request-b", "k2", "u1", requestNoted(before.Format(time.RFC3339)))},
			modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1")},
		},
		"newer request granted after an agent had reported: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(before.Format(time.RFC3339)),
			others:   []*fleet.ClusterRegistration{newer("request-b", "k2", "u1", requestNoted(before.Format(time.RFC3339)))},
			modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1")},
		},
		"newer request that waits for a confirmation: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others:   []*fleet.ClusterRegistration{newer("request-b", "k2", "u1", func(r *fleet.ClusterRegistration) { r.Status.Granted = false })},
			modified: []func(*grant.Input){spokenBy("account-1"), ofAgent("k1", "u1")},
		},
		"newer request, account of the heartbeat is unknown: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others: []*fleet.ClusterRegistration{newer("request-b", "k2", "u1")}, modified: []func(*grant.Input){ofAgent("k1", "u1")},
		},
		"newer request that sent the heartbeat: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others: []*fleet.ClusterRegistration{newer("request-b", "k2", "u1")}, modified: []func(*grant.Input){spokenBy("account-0"), ofAgent("k1", "u1")},
		},
		"request that waits for the same credential: stays": {
			seen: rulestest.ACluster(rulestest.ClusterSeen(used)), noted: rulestest.Ptr(""),
			others: []*fleet.ClusterRegistration{older("request-b", func(r *fleet.ClusterRegistration) { r.Spec.ClientRandom = "random-1" })},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.Permute(test.others, func(others []*fleet.ClusterRegistration) {
				in := grantInput(with(requestGranted), func(in *grant.Input) { in.Named, in.Others = test.seen, others }, requestAccount, requestRights)
				if test.noted != nil {
					requestNoted(*test.noted)(in.Request)
				}
				credential(forever)(&in)
				rulestest.Build(&in, test.modified)
				rulestest.ExpectEqual(t, "superseded", rulestest.Pure(t, grant.Decide, in).Superseded, test.want, cmpopts.EquateEmpty())
			})
		})
	}
}

func TestNeedsHeartbeatAccount(t *testing.T) {
	older := aRequest(requestNamed("request-a"), requestMadeAt(rulestest.At(-time.Hour)), requestGranted)
	used, gone := rulestest.ClusterSeen(rulestest.At(-time.Second)), rulestest.At(0)
	ofCluster := func(modifiers ...func(*fleet.Cluster)) func(*grant.Input) {
		return func(in *grant.Input) {
			in.Named = rulestest.ACluster(append(modifiers, used)...)
			in.Clusters = []*fleet.Cluster{in.Named}
		}
	}
	longAgo := func(in *grant.Input) {
		in.Credential, in.Now = nil, in.Now.Add(time.Hour)
		requestMadeAt(rulestest.At(-time.Hour))(in.Request)
		in.Named.Annotations, in.Named.Labels = map[string]string{annotation.AgentKey: "k1"}, map[string]string{fleet.LabelTokenUID: "u1"}
	}
	newer := func(key string) *fleet.ClusterRegistration {
		return aRequest(requestNamed("request-b"), requestMadeAt(rulestest.At(-time.Minute)), requestGranted, requestNoted(""), requestOfAgent(key, "u1"))
	}
	tests := map[string]struct {
		modified []func(*grant.Input)
		want     bool
	}{
		"an older request: it may be superseded": {want: true},
		"no other request":                       {modified: []func(*grant.Input){func(in *grant.Input) { in.Others = nil }}},
		"the Cluster has another manager": {modified: []func(*grant.Input){ofCluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: "other"}
		})}},
		"the Cluster is being deleted":             {modified: []func(*grant.Input){ofCluster(func(c *fleet.Cluster) { c.DeletionTimestamp = &gone })}},
		"the namespace belongs to another Cluster": {modified: []func(*grant.Input){func(in *grant.Input) { in.NamespaceTaken = true }}},
		"a newer rival, the credential was deleted long ago": {want: true, modified: []func(*grant.Input){longAgo, func(in *grant.Input) {
			requestOfAgent("k1", "u1")(in.Request)
			in.Others = []*fleet.ClusterRegistration{newer("k2")}
		}}},
		"the credential was deleted, a heartbeat of an account that may be in use": {want: true, modified: []func(*grant.Input){func(in *grant.Input) {
			requestOfAgent("k2", "u1")(in.Request)
			in.Credential, in.UsedBy = nil, "x"
		}}},
		"a newer request of the same agent, the same": {modified: []func(*grant.Input){longAgo, func(in *grant.Input) {
			requestOfAgent("k1", "u1")(in.Request)
			in.Others = []*fleet.ClusterRegistration{newer("k1")}
		}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(with(requestGranted, requestNoted("")), ofCluster(), others(older), requestAccount, requestRights)
			credential(rulestest.BoundJWT("account-1", time.Time{}))(&in)
			rulestest.Build(&in, test.modified)
			rulestest.ExpectEqual(t, "needs the account", grant.NeedsHeartbeatAccount(in), test.want)
		})
	}
}

// spokenBy means that this account has sent the last heartbeat.
func spokenBy(account string) func(*grant.Input) {
	return func(in *grant.Input) { in.HeartbeatAccount = account }
}

func TestUnusedGrant_IsAbandonedIfAnotherAgentServes(t *testing.T) {
	ended := func(modifiers ...func(*grant.Input)) grant.Input {
		live := aRequest(requestNamed("request-a"), requestMadeAt(rulestest.At(-time.Hour)), requestGranted)
		return grantInput(append([]func(*grant.Input){
			with(requestGranted, requestNoted("")), named(rulestest.ClusterSeen(rulestest.At(-time.Second))), requestAccount, requestRights, others(live), later(time.Hour),
		}, modifiers...)...)
	}
	tests := map[string]struct {
		in   grant.Input
		want grant.Stage
	}{
		"answer has expired: abandoned":              {ended(spokenBy("account-0")), grant.Abandoned},
		"answer can still be read: stays":            {ended(spokenBy("account-0"), credential(rulestest.BoundJWT("account-1", time.Time{}))), grant.Done},
		"its own credential is in use: stays":        {ended(spokenBy("account-1")), grant.Done},
		"account of the heartbeat is unknown: stays": {ended(), grant.Done},
		"no other request: stays":                    {ended(spokenBy("account-0"), func(in *grant.Input) { in.Others = nil }), grant.Done},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "stage", rulestest.Pure(t, grant.Decide, test.in).Stage, test.want)
		})
	}
}

func requestVersion(version string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.ResourceVersion = version }
}

// Exactly one of the two is the older one, in whatever order their grants become known.
func TestTwoRequestsOfOneSecond_OneIsSuperseded(t *testing.T) {
	second := rulestest.At(-time.Minute)
	made := func(name string, modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
		return aRequest(append([]func(*fleet.ClusterRegistration){requestNamed(name), requestMadeAt(second), requestNoted("")}, modifiers...)...)
	}
	tests := map[string]struct {
		a, b *fleet.ClusterRegistration
		ends string
	}{
		"granted later: stays":                               {made("a", requestGrantedAt(rulestest.At(-5*time.Second))), made("b", requestGrantedAt(rulestest.At(-8*time.Second))), "b"},
		"granted later, first by name: stays":                {made("a", requestGrantedAt(rulestest.At(-8*time.Second))), made("b", requestGrantedAt(rulestest.At(-5*time.Second))), "a"},
		"not granted yet: stays":                             {made("a"), made("b", requestGrantedAt(rulestest.At(-5*time.Second))), "b"},
		"granted in the same second: the last by name stays": {made("a", requestGrantedAt(second)), made("b", requestGrantedAt(second)), "a"},
		"granted in the same second: the higher resource version stays": {
			made("a", requestGrantedAt(second), requestVersion("100")), made("b", requestGrantedAt(second), requestVersion("99")), "b",
		},
		"granted without a recorded time: the last by name stays": {made("a", requestGranted), made("b", requestGranted), "a"},
		"different age: the younger stays, even if it was granted first": {
			made("a", requestGrantedAt(second)), made("b", requestMadeAt(rulestest.At(-time.Hour)), requestGrantedAt(rulestest.At(0))), "b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ended := append(supersededBy(t, test.a, test.b), supersededBy(t, test.b, test.a)...)
			rulestest.ExpectEqual(t, "ended", ended, []string{test.ends})
		})
	}
}

// supersededBy is what a request ends once its credential is in use, if there is another one.
func supersededBy(t *testing.T, request, other *fleet.ClusterRegistration) []string {
	t.Helper()
	in := grantInput(found(rulestest.ClusterSeen(rulestest.At(-time.Second))), requestAccount, requestRights, others(request, other), func(in *grant.Input) { in.Request = request })
	if request.Status.Granted {
		in.Named = in.Clusters[0]
	}
	credential(rulestest.BoundJWT("account-1", time.Time{}))(&in)
	return rulestest.Pure(t, grant.Decide, in).Superseded
}

// The order is total: all requests agree on the one that stays.
func TestRequestsOfOneClient_AllButOneAreSuperseded(t *testing.T) {
	var requests []*fleet.ClusterRegistration
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r := aRequest(requestNamed(name), requestMadeAt(rulestest.At(-time.Duration(i/4)*time.Minute)), requestNoted(""))
		if i%4 > 0 {
			requestGrantedAt(rulestest.At(-time.Duration(i%2) * time.Second))(r)
		}
		requests = append(requests, r)
	}
	var order []string
	for _, request := range requests {
		in := grantInput(found(rulestest.ClusterSeen(rulestest.At(-time.Second))), requestAccount, requestRights, others(requests...), func(in *grant.Input) { in.Request = request })
		in.Named = in.Clusters[0]
		credential(rulestest.BoundJWT("account-1", time.Time{}))(&in)
		ended := rulestest.Pure(t, grant.Decide, in).Superseded
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
	rulestest.ExpectEqual(t, "from the oldest to the one that stays", order, []string{"f", "h", "g", "e", "b", "d", "c", "a"})
}
