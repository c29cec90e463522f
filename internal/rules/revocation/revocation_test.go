package revocation_test

import (
	"testing"

	"github.com/fleet-hub/fleet/internal/rules/revocation"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func annotated(annotations map[string]string) *fleet.Cluster {
	return rulestest.ACluster(func(c *fleet.Cluster) { c.Annotations = annotations })
}

func TestOrders(t *testing.T) {
	credential, key := annotation.RevokeCredential, annotation.RevokeKey
	credentialDone, keyDone := annotation.CredentialRevoked, annotation.KeyRevoked
	for name, test := range map[string]struct {
		annotations map[string]string
		want        revocation.Outcome
	}{
		"no order":                   {nil, revocation.Outcome{}},
		"empty order":                {map[string]string{credential: ""}, revocation.Outcome{}},
		"credential":                 {map[string]string{credential: "1"}, revocation.Outcome{DeleteAccounts: true, Done: map[string]string{credentialDone: "1"}}},
		"credential, done before":    {map[string]string{credential: "1", credentialDone: "1"}, revocation.Outcome{}},
		"credential, again":          {map[string]string{credential: "2", credentialDone: "1"}, revocation.Outcome{DeleteAccounts: true, Done: map[string]string{credentialDone: "2"}}},
		"key":                        {map[string]string{key: "1"}, revocation.Outcome{Block: true, DeleteAccounts: true, Done: map[string]string{keyDone: "1"}}},
		"key, done before":           {map[string]string{key: "1", keyDone: "1"}, revocation.Outcome{}},
		"both":                       {map[string]string{credential: "1", key: "2"}, revocation.Outcome{Block: true, DeleteAccounts: true, Done: map[string]string{credentialDone: "1", keyDone: "2"}}},
		"order removed afterwards":   {map[string]string{keyDone: "1"}, revocation.Outcome{}},
		"one done, the other is not": {map[string]string{credential: "1", credentialDone: "1", key: "2"}, revocation.Outcome{Block: true, DeleteAccounts: true, Done: map[string]string{keyDone: "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "outcome", rulestest.Pure(t, revocation.Decide, annotated(test.annotations)), test.want)
		})
	}
}

func TestBlock_IsEndedByAnotherKey(t *testing.T) {
	for name, test := range map[string]struct {
		given, want map[string]string
	}{
		"pinned key":            {map[string]string{annotation.AgentKey: "k1"}, map[string]string{annotation.BlockedKey: "k1"}},
		"no key":                {nil, map[string]string{annotation.BlockedKey: revocation.NoKey}},
		"blocked before":        {map[string]string{annotation.BlockedKey: "k1"}, map[string]string{annotation.BlockedKey: "k1"}},
		"another key is pinned": {map[string]string{annotation.BlockedKey: "k1", annotation.AgentKey: "k2"}, map[string]string{annotation.BlockedKey: "k2"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := annotated(test.given)
			revocation.Block(cluster)
			rulestest.ExpectEqual(t, "annotations", cluster.Annotations, test.want)
			if !revocation.IsBlocked(cluster) {
				t.Error("the Cluster is not blocked")
			}
			cluster.Annotations[annotation.AgentKey] = "k3"
			if revocation.IsBlocked(cluster) {
				t.Error("the Cluster is still blocked")
			}
		})
	}
	if revocation.IsBlocked(annotated(nil)) {
		t.Error("a Cluster without an order is blocked")
	}
}

func TestJoinedWith(t *testing.T) {
	token := rulestest.AToken() // UID u1
	granted := func(uid string, granted bool) *fleet.ClusterRegistration {
		r := &fleet.ClusterRegistration{Status: fleet.ClusterRegistrationStatus{Granted: granted}}
		r.Annotations = map[string]string{annotation.TokenUIDAtGrant: uid}
		return r
	}
	labelled := rulestest.ACluster(func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelTokenUID: "u1"} })
	for name, test := range map[string]struct {
		cluster *fleet.Cluster
		request *fleet.ClusterRegistration
		want    bool
	}{
		"label of the Cluster":                    {labelled, nil, true},
		"label, granted with another token since": {labelled, granted("u2", true), true},
		"granted request of an earlier release":   {rulestest.ACluster(), granted("u1", true), true},
		"request that only claims it":             {rulestest.ACluster(), granted("u1", false), false},
		"another token":                           {rulestest.ACluster(), granted("u2", true), false},
		"nothing":                                 {rulestest.ACluster(), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "joined", revocation.JoinedWith(token, test.cluster, test.request), test.want)
		})
	}
	token.UID = ""
	if revocation.JoinedWith(token, rulestest.ACluster(), nil) {
		t.Error("a Cluster without a label has joined with a token without a UID")
	}
}
