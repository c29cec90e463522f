package deploy

import (
	"testing"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// TestMayTake checks on a real API server who may take an existing release.
func TestMayTake(t *testing.T) {
	t.Parallel()
	l := newLab(t, "may-take")
	other := newLab(t, "may-take-agent")
	l.tenant("tenant", l.Name+"-own")
	agent, err := agentchart.Render(deploytest.AgentIn(other.Name))
	if err != nil {
		t.Fatal(err)
	}
	other.install(agent, marks{})
	l.start()
	options, err := Options{Hub: l.identity, Namespace: l.Name, Local: l.local, AgentNamespace: l.Name, OwnBundle: "fleet-agent-x"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDeployer(options)
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := d.accounts.Find(t.Context(), &fleet.BundleDeployment{Spec: fleet.BundleDeploymentSpec{Options: fleet.BundleDeploymentOptions{ServiceAccount: "tenant"}}})
	if err != nil {
		t.Fatal(err)
	}
	plain := "release web/x exists and belongs to no bundle: to take it over, service account " + l.Name + "/tenant needs the right to update secrets in namespace web"
	tests := map[string]struct {
		bundle, owner, agent string
		who                  *access.Identity
		want                 string
	}{
		"its own":                                            {bundle: "x", owner: "x", agent: l.Name, who: tenant},
		"its own, of a deleted agent":                        {bundle: "x", owner: "x", agent: "gone", who: tenant},
		"its own, of another existing agent":                 {bundle: "x", owner: "x", agent: other.Name, who: d.agent, want: "release web/x belongs to bundle x of the agent in namespace " + other.Name},
		"an agent's own bundle, of the agent before":         {bundle: "fleet-agent-x", owner: "fleet-agent-x", agent: other.Name, who: d.agent},
		"another bundle's":                                   {bundle: "x", owner: "y", agent: l.Name, who: d.agent, want: "release web/x belongs to bundle y"},
		"another bundle's, of a deleted agent":               {bundle: "x", owner: "y", agent: "gone", who: d.agent},
		"another bundle's, of a deleted agent, for a tenant": {bundle: "x", owner: "y", agent: "gone", who: tenant, want: plain},
		"no owner":               {bundle: "x", who: d.agent},
		"no owner, for a tenant": {bundle: "x", who: tenant, want: plain},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := d.take(t.Context(), test.bundle, test.who, placement.Release{Namespace: "web", Name: "x"}, true, map[string]string{
				fleet.AnnotationBundleID: test.owner, fleet.AnnotationAgentNamespace: test.agent})
			deploytest.ExpectError(t, err, test.want)
			if err != nil && outcome.ReasonOf(err) != conditions.ReasonReleaseTaken {
				t.Errorf("reason %s", outcome.ReasonOf(err))
			}
		})
	}
	if err := d.take(t.Context(), "x", tenant, placement.Release{}, false, nil); err != nil {
		t.Errorf("no release: %v", err)
	}
}
