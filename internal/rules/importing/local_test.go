package importing_test

import (
	"testing"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
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
			c := rulestest.ACluster(rulestest.ClusterNamed(test.name))
			c.Namespace = test.namespace
			rulestest.ExpectEqual(t, "local", clusters.IsLocal(c, config.Bootstrap{Namespace: test.bootstrap}), test.want)
		})
	}
}

func TestImportDisabledLocalAgent(t *testing.T) {
	disabled := func(changes ...importChange) importing.Input {
		return carriedOut(append([]importChange{isLocal, localAgentDisabled}, changes...)...)
	}
	never := func(changes ...importChange) importing.Input {
		return importInput(append([]importChange{isLocal, localAgentDisabled}, changes...)...)
	}
	tests := map[string]struct {
		in   importing.Input
		want importing.Stage
	}{
		"an agent that was never deployed is not contacted":   {never(), importing.Disabled},
		"and needs no client ID":                              {never(cluster(rulestest.ClusterClient(""))), importing.Disabled},
		"a deployed agent is removed":                         {disabled(seenIn("cattle-fleet-system")), importing.MustRemove},
		"from the namespace it was seen in":                   {disabled(seenIn("cattle-fleet-local-system")), importing.MustRemove},
		"from the system namespace if it was never seen":      {disabled(), importing.MustRemove},
		"also one that came by itself":                        {never(seenIn("cattle-fleet-system")), importing.MustRemove},
		"without a kubeconfig only the status is cleared":     {disabled(withoutSecret), importing.MustRemove},
		"a kubeconfig of a forbidden namespace is not used":   {disabled(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "kube-system" })), importing.MustRemove},
		"a Cluster that goes is left as it is":                {disabled(cluster(rulestest.ClusterGoing)), importing.None},
		"another Cluster of the name is not concerned":        {carriedOut(isLocal, localAgentDisabled, cluster(func(c *fleet.Cluster) { c.Namespace = rulestest.Workspace })), importing.InSync},
		"another Cluster of the workspace is not concerned":   {carriedOut(isLocal, localAgentDisabled, cluster(func(c *fleet.Cluster) { c.Name = "east" })), importing.InSync},
		"without a local Cluster there is nothing to disable": {carriedOut(isLocal, localAgentDisabled, conf(func(c *config.Config) { c.Bootstrap.Namespace = "-" })), importing.InSync},
		"enabled, it is like any other":                       {carriedOut(isLocal), importing.InSync},
	}
	golden := rulestest.GoldenOf(t, "import-disabled")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, importing.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			golden.Expect(t, name, rulestest.YAML(t, got))
			checkImportOutcome(t, got)
			if got.Stage == importing.MustRemove {
				rulestest.Note(&test.in.Cluster.Status, got)
				rulestest.ExpectEqual(t, "after the removal", rulestest.Pure(t, importing.Decide, test.in).Stage, importing.Disabled)
			}
		})
	}
}

// A local agent that is enabled again is imported like a new one.
func TestImportEnabledAgain(t *testing.T) {
	in := carriedOut(isLocal, localAgentDisabled)
	rulestest.Note(&in.Cluster.Status, importing.Decide(in))
	in.Config.Bootstrap.LocalAgentDisabled = false
	out := rulestest.Pure(t, importing.Decide, in)
	rulestest.ExpectEqual(t, "stage", out.Stage, importing.NeedsAgent)
	rulestest.ExpectEqual(t, "new registration", out.Deploy.NewRegistration, true)
}
