package handshake_test

import (
	"testing"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestIsLocal(t *testing.T) {
	tests := map[string]struct {
		namespace, name, bootstrap string
		want                       bool
	}{
		"the hub's own":                    {"fleet-local", "local", "fleet-local", true},
		"in whatever workspace":            {"hub", "local", "hub", true},
		"of another name":                  {"fleet-local", "east", "fleet-local", false},
		"of another workspace":             {"fleet-default", "local", "fleet-local", false},
		"where the hub registers nothing":  {"fleet-local", "local", "", false},
		"where it registers nothing aloud": {"fleet-local", "local", "-", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := aCluster(clusterNamed(test.name))
			c.Namespace = test.namespace
			expectEqual(t, "local", handshake.IsLocal(c, config.Bootstrap{Namespace: test.bootstrap}), test.want)
		})
	}
}

func TestImportDisabledLocalAgent(t *testing.T) {
	disabled := func(changes ...importChange) handshake.ImportInput {
		return carriedOut(append([]importChange{isLocal, localAgentDisabled}, changes...)...)
	}
	never := func(changes ...importChange) handshake.ImportInput {
		return importInput(append([]importChange{isLocal, localAgentDisabled}, changes...)...)
	}
	tests := map[string]struct {
		in   handshake.ImportInput
		want handshake.ImportStage
	}{
		"an agent that was never deployed is not contacted":   {never(), handshake.ImportDisabled},
		"and needs no client ID":                              {never(cluster(clusterClient(""))), handshake.ImportDisabled},
		"a deployed agent is removed":                         {disabled(seenIn("cattle-fleet-system")), handshake.ImportMustRemove},
		"from the namespace it was seen in":                   {disabled(seenIn("cattle-fleet-local-system")), handshake.ImportMustRemove},
		"from the system namespace if it was never seen":      {disabled(), handshake.ImportMustRemove},
		"also one that came by itself":                        {never(seenIn("cattle-fleet-system")), handshake.ImportMustRemove},
		"without a kubeconfig only the status is cleared":     {disabled(withoutSecret), handshake.ImportMustRemove},
		"a kubeconfig of a forbidden namespace is not used":   {disabled(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "kube-system" })), handshake.ImportMustRemove},
		"a Cluster that goes is left as it is":                {disabled(cluster(clusterGoing)), handshake.ImportNone},
		"another Cluster of the name is not concerned":        {carriedOut(isLocal, localAgentDisabled, cluster(func(c *fleet.Cluster) { c.Namespace = workspace })), handshake.ImportInSync},
		"another Cluster of the workspace is not concerned":   {carriedOut(isLocal, localAgentDisabled, cluster(func(c *fleet.Cluster) { c.Name = "east" })), handshake.ImportInSync},
		"without a local Cluster there is nothing to disable": {carriedOut(isLocal, localAgentDisabled, conf(func(c *config.Config) { c.Bootstrap.Namespace = "-" })), handshake.ImportInSync},
		"enabled, it is like any other":                       {carriedOut(isLocal), handshake.ImportInSync},
	}
	golden := goldenOf(t, "import-disabled")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := pure(t, handshake.Import, test.in)
			expectEqual(t, "stage", got.Stage, test.want)
			golden.expect(t, name, told(t, got))
			checkImportOutcome(t, got)
			if got.Stage == handshake.ImportMustRemove {
				note(&test.in.Cluster.Status, got)
				expectEqual(t, "after the removal", pure(t, handshake.Import, test.in).Stage, handshake.ImportDisabled)
			}
		})
	}
}

// A local agent that was disabled and is enabled again is imported like a new one.
func TestImportEnabledAgain(t *testing.T) {
	in := carriedOut(isLocal, localAgentDisabled)
	note(&in.Cluster.Status, handshake.Import(in))
	in.Config.Bootstrap.LocalAgentDisabled = false
	out := pure(t, handshake.Import, in)
	expectEqual(t, "stage", out.Stage, handshake.ImportNeedsAgent)
	expectEqual(t, "new registration", out.Deploy.NewRegistration, true)
}
