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
		"the hub's own Cluster":       {"fleet-local", "local", "fleet-local", true},
		"another bootstrap workspace": {"hub", "local", "hub", true},
		"of another name":             {"fleet-local", "east", "fleet-local", false},
		"of another workspace":        {"fleet-default", "local", "fleet-local", false},
		"no bootstrap workspace":      {"fleet-local", "local", "", false},
		"bootstrap workspace is -":    {"fleet-local", "local", "-", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := rulestest.ACluster(rulestest.ClusterNamed(test.name))
			c.Namespace = test.namespace
			rulestest.ExpectEqual(t, "local", clusters.IsLocal(c, config.Bootstrap{Namespace: test.bootstrap}), test.want)
		})
	}
}

func TestDisabledLocalAgent_IsRemoved(t *testing.T) {
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
		"never deployed: disabled":                                      {never(), importing.Disabled},
		"never deployed, no client ID: disabled":                        {never(cluster(rulestest.ClusterClient(""))), importing.Disabled},
		"deployed: removed":                                             {disabled(seenIn("cattle-fleet-system")), importing.MustRemove},
		"deployed in another namespace: removed from there":             {disabled(seenIn("cattle-fleet-local-system")), importing.MustRemove},
		"deployed, has not reported: removed from the system namespace": {disabled(), importing.MustRemove},
		"not imported, has reported: removed":                           {never(seenIn("cattle-fleet-system")), importing.MustRemove},
		"deployed, kubeconfig is missing: only the status is cleared":   {disabled(withoutSecret), importing.MustRemove},
		"deployed, kubeconfig of a refused namespace: not used":         {disabled(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "kube-system" })), importing.MustRemove},
		"Cluster is being deleted: unchanged":                           {disabled(cluster(rulestest.ClusterGoing)), importing.None},
		"Cluster of the same name in another workspace: unchanged":      {carriedOut(isLocal, localAgentDisabled, cluster(func(c *fleet.Cluster) { c.Namespace = rulestest.Workspace })), importing.InSync},
		"other Cluster of the workspace: unchanged":                     {carriedOut(isLocal, localAgentDisabled, cluster(func(c *fleet.Cluster) { c.Name = "east" })), importing.InSync},
		"no bootstrap workspace: unchanged":                             {carriedOut(isLocal, localAgentDisabled, conf(func(c *config.Config) { c.Bootstrap.Namespace = "-" })), importing.InSync},
		"enabled: in sync":                                              {carriedOut(isLocal), importing.InSync},
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

func TestReenabledLocalAgent_IsImportedAsNew(t *testing.T) {
	in := carriedOut(isLocal, localAgentDisabled)
	rulestest.Note(&in.Cluster.Status, importing.Decide(in))
	in.Config.Bootstrap.LocalAgentDisabled = false
	out := rulestest.Pure(t, importing.Decide, in)
	rulestest.ExpectEqual(t, "stage", out.Stage, importing.NeedsAgent)
	rulestest.ExpectEqual(t, "new registration", out.Deploy.NewRegistration, true)
}
