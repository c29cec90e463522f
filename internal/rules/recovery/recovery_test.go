package recovery_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/recovery"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestKeyToPin(t *testing.T) {
	created, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := created.Public()
	for name, test := range map[string]struct {
		reported    string
		annotations map[string]string
		want        string
	}{
		"reported: is pinned":                        {key, nil, key},
		"nothing reported":                           {"", nil, ""},
		"another is pinned: stays":                   {key, map[string]string{annotation.AgentKey: "another"}, ""},
		"the key was blocked":                        {key, map[string]string{annotation.BlockedKey: "another"}, ""},
		"its agent was replaced by one without key":  {key, map[string]string{annotation.ReplacedKey: key}, ""},
		"the key of another agent was replaced":      {key, map[string]string{annotation.ReplacedKey: "another"}, key},
		"not a key: is not pinned, whatever it says": {"x", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := rulestest.ACluster()
			cluster.Annotations, cluster.Status.Agent.RecoveryKey = test.annotations, test.reported
			if got := recovery.KeyToPin(cluster); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestHas_ComparesWhatTheAgentHasWithWhatItWouldGet(t *testing.T) {
	signed := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	ticket := func(change func(*identity.Ticket)) identity.Ticket {
		ticket := identity.Ticket{Workspace: "ws", Cluster: "c1", Labels: map[string]string{"env": "dev"}, ClientID: "client", Key: "key", Time: signed}
		change(&ticket)
		return ticket
	}
	same := func(*identity.Ticket) {}
	many := func(t *identity.Ticket) {
		for i := range 200 {
			t.Labels[fmt.Sprintf("label-%03d", i)] = strings.Repeat("v", 60)
		}
	}
	receipt := identity.Receipt("hub", "token", []byte("key"), ticket(same))
	for name, test := range map[string]struct {
		receipt, hub, token string
		wanted              func(*identity.Ticket)
		after               time.Duration
		want                bool
	}{
		"the same":                       {receipt, "hub", "token", same, time.Hour, true},
		"nothing":                        {"", "hub", "token", same, 0, false},
		"no time":                        {"x/" + strings.Split(receipt, "/")[1], "hub", "token", same, 0, false},
		"only a time":                    {signed.Format(time.RFC3339), "hub", "token", same, 0, false},
		"another time than the signed":   {signed.Add(time.Hour).Format(time.RFC3339) + "/" + strings.Split(receipt, "/")[1], "hub", "token", same, 0, true},
		"the hub has another key":        {receipt, "another", "token", same, 0, false},
		"another recovery token":         {receipt, "hub", "another", same, 0, false},
		"another workspace key":          {identity.Receipt("hub", "token", []byte("half"), ticket(same)), "hub", "token", same, 0, false},
		"a label changed":                {receipt, "hub", "token", func(t *identity.Ticket) { t.Labels["env"] = "prod" }, 0, false},
		"the Cluster was paused":         {receipt, "hub", "token", func(t *identity.Ticket) { t.Paused = true }, 0, false},
		"another agent's key":            {receipt, "hub", "token", func(t *identity.Ticket) { t.Key = "another" }, 0, false},
		"another Cluster":                {receipt, "hub", "token", func(t *identity.Ticket) { t.Cluster = "c2" }, 0, false},
		"nearly 30 days old":             {receipt, "hub", "token", same, 30*24*time.Hour - time.Second, true},
		"30 days old":                    {receipt, "hub", "token", same, 30 * 24 * time.Hour, false},
		"from long in the future":        {receipt, "hub", "token", same, -31 * 24 * time.Hour, false},
		"labels that fit into no ticket": {identity.Receipt("hub", "token", []byte("key"), ticket(func(t *identity.Ticket) { t.Labels = nil })), "hub", "token", many, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := protocol.Recovery{HubKey: test.hub, Token: test.token, WorkspaceKey: []byte("key")}
			if got := recovery.Has(test.receipt, wanted, ticket(test.wanted), signed.Add(test.after)); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
