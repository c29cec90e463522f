package stored

import (
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// FuzzStoredObjects checks that any content of the agent's three objects leads to a decision without a panic, and
// that no error contains the token.
func FuzzStoredObjects(f *testing.F) {
	whole, err := hubclient.Access{Server: "https://10.99.0.2:6443", Token: "t0ps3cret", Namespace: "d"}.Kubeconfig()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("https://hub:6443", "", "", whole, "{}", byte(0))
	f.Add("https://[::1]:6443", "-----BEGIN CERTIFICATE-----", "", []byte("{"), "agentTLSMode: system-store", byte(1))
	f.Add("https://[::1", "", "token: t0ps3cret\nclusterNamespace: a\napiServerURL: https://a%zz\nsystemRegistrationNamespace: r", []byte(nil), "agentTLSMode: strict", byte(2))
	f.Add("::", "", "- {", []byte("clusters: [{name: a, cluster: {server: 'https://a:b'}}]"), "{", byte(7))
	f.Fuzz(func(t *testing.T, server, ca, values string, kubeconfig []byte, configuration string, answers byte) {
		data := protocol.Bootstrap{
			APIServerURL: server, APIServerCA: []byte(ca), ClusterNamespace: "fleet-default", Token: "t0ps3cret",
			TokenName: "t1", SystemRegistrationNamespace: "r",
		}.Encode()
		if values != "" {
			data[protocol.ValuesKey] = []byte(values)
		}
		state := registering.Input{Now: time.Unix(1e9, 0), Running: answers&1 > 0, Serving: answers&2 > 0}
		state.Bootstrap, state.BootstrapProblem = parsed(parseBootstrap(data))
		settings, _, err := config.ParseAgent(configuration)
		state.ConfigProblem, state.SystemStore = err, settings.AgentTLSMode == config.TLSModeSystemStore
		identity, access, err := parseIdentity(protocol.Identity{
			Kubeconfig: kubeconfig, DeploymentNamespace: "d", ClusterNamespace: "c", ClusterName: "n",
		}.Encode())
		all := []registering.Answer{"", registering.Accepted, registering.Rejected, registering.Untrusted, registering.Unanswered}
		if err != nil {
			state.StoredProblem = err
		} else {
			state.Stored = &registering.StoredIdentity{Server: access.Server, CA: access.CA, LastAnswer: registering.LastAnswer{Answer: all[int(answers>>2)%len(all)]}}
			if identityKey(*identity) == "" {
				t.Error("an identity without a key")
			}
		}
		state.AnswerAtNewAddress.Answer = all[int(answers>>5)%len(all)]
		step := registering.Decide(state)
		if step.Stage == "" {
			t.Errorf("no decision for %+v", state)
		}
		if step.Err != nil && strings.Contains(step.Err.Error(), "t0ps3cret") && !strings.Contains(server+values+configuration, "t0ps3cret") {
			t.Errorf("the error shows the token: %v", step.Err)
		}
	})
}
