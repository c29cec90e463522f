package grant_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestHeartbeatAccount(t *testing.T) {
	const seen = `{"f:status":{"f:agent":{".":{},"f:lastSeen":{},"f:namespace":{}}}}`
	wrote := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", Subresource: "status", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const expires, both = `{"f:status":{"f:agent":{"f:credentialExpires":{}}}}`, `{"f:status":{"f:agent":{"f:lastSeen":{},"f:credentialExpires":{}}}}`
	wroteAt := func(seconds int, manager, fields string) metav1.ManagedFieldsEntry {
		entry, at := wrote(manager, fields), rulestest.At(time.Duration(seconds)*time.Second)
		entry.Time = &at
		return entry
	}
	ours := func(account string) string {
		return protocol.HeartbeatManager(rulestest.BoundJWT(account, time.Time{}))
	}
	tests := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"heartbeat of an agent of this project: its account": {[]metav1.ManagedFieldsEntry{wrote(ours("a-1"), seen)}, "a-1"},
		"two agents: account of the last heartbeat": {[]metav1.ManagedFieldsEntry{
			wrote(ours("a-1"), `{"f:status":{"f:agent":{"f:namespace":{}}}}`), wrote(ours("a-2"), seen),
		}, "a-2"},
		"heartbeat of Rancher Fleet's agent: none": {[]metav1.ManagedFieldsEntry{
			wrote(ours("a-1"), `{"f:status":{"f:agent":{"f:namespace":{}}}}`), wrote("fleetagent", seen),
		}, ""},
		"same second as another account: the later credential": {[]metav1.ManagedFieldsEntry{wroteAt(0, ours("a-1"), seen), wroteAt(0, ours("a-2"), expires)}, "a-2"},
		"heartbeat later than the credential of another account": {[]metav1.ManagedFieldsEntry{
			wroteAt(1, ours("a-2"), seen), wroteAt(0, ours("a-1"), expires),
		}, "a-2"},
		"a later heartbeat of the other account":               {[]metav1.ManagedFieldsEntry{wroteAt(1, ours("a-1"), both), wroteAt(0, ours("a-2"), `{}`)}, "a-1"},
		"account and Rancher Fleet's agent in the same second": {[]metav1.ManagedFieldsEntry{wroteAt(0, ours("a-1"), seen), wroteAt(0, "fleetagent", expires)}, ""},
		"Rancher Fleet's agent and account in the same second": {[]metav1.ManagedFieldsEntry{wroteAt(0, "fleetagent", seen), wroteAt(0, ours("a-2"), expires)}, "a-2"},
		"only the credential expires at another time":          {[]metav1.ManagedFieldsEntry{wroteAt(0, ours("a-1"), expires)}, ""},
		"no heartbeat":                  {nil, ""},
		"fields that cannot be decoded": {[]metav1.ManagedFieldsEntry{wrote(ours("a-1"), `{`)}, ""},
		"an entry without fields":       {[]metav1.ManagedFieldsEntry{{Manager: ours("a-1")}}, ""},
		"other fields of the status":    {[]metav1.ManagedFieldsEntry{wrote(ours("a-1"), `{"f:status":{"f:display":{}}}`)}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := rulestest.ACluster(func(c *fleet.Cluster) { c.ManagedFields = test.entries })
			rulestest.ExpectEqual(t, "speaker", protocol.HeartbeatAccount(cluster), test.want)
		})
	}
}

func TestHeartbeatManager(t *testing.T) {
	tests := map[string]struct{ token, want string }{
		"a token of the TokenRequest API": {rulestest.BoundJWT("uid-1", rulestest.Noon()), "fleet-agent:uid-1"},
		"a token of a token Secret":       {rulestest.SecretJWT("uid-2"), "fleet-agent:uid-2"},
		"a token without an account":      {"letmein", ""},
		"no token":                        {"", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "manager", protocol.HeartbeatManager(test.token), test.want)
		})
	}
}
