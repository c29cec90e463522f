package deploy

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/agentchart"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestCreatesSomething(t *testing.T) {
	rule := func(verb, group, resource string, names ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: []string{"get", verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
	}
	tests := map[string]struct {
		rules []authorizationv1.ResourceRule
		want  bool
	}{
		"nothing":                         {},
		"ConfigMaps":                      {[]authorizationv1.ResourceRule{rule("create", "", "configmaps")}, true},
		"by any verb":                     {[]authorizationv1.ResourceRule{rule("*", "apps", "deployments")}, true},
		"everything":                      {[]authorizationv1.ResourceRule{rule("*", "*", "*")}, true},
		"everything of a group":           {[]authorizationv1.ResourceRule{rule("create", "batch", "*")}, true},
		"only reading":                    {[]authorizationv1.ResourceRule{rule("list", "", "configmaps")}, false},
		"only changing":                   {[]authorizationv1.ResourceRule{rule("patch", "", "configmaps")}, false},
		"cluster-scoped resources":        {[]authorizationv1.ResourceRule{rule("create", "", "namespaces")}, false},
		"asking about itself":             {[]authorizationv1.ResourceRule{rule("create", "authorization.k8s.io", "selfsubjectaccessreviews")}, false},
		"asking about others":             {[]authorizationv1.ResourceRule{rule("create", "authorization.k8s.io", "localsubjectaccessreviews")}, false},
		"a subresource":                   {[]authorizationv1.ResourceRule{rule("create", "", "pods/exec")}, false},
		"single names":                    {[]authorizationv1.ResourceRule{rule("create", "", "configmaps", "mine")}, false},
		"unknown kind":                    {[]authorizationv1.ResourceRule{rule("create", "example.com", "things")}, false},
		"one allowed resource of several": {[]authorizationv1.ResourceRule{rule("create", "", "namespaces"), rule("create", "", "secrets")}, true},
	}
	namespaced := func(resource schema.GroupResource) bool {
		return resource.Resource != "namespaces" && resource.Resource != "things"
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := createsSomething(test.rules, namespaced); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestMayTake checks on a real API server who may take an existing release.
func TestMayTake(t *testing.T) {
	t.Parallel()
	l := newLab(t, "may-take")
	other := newLab(t, "may-take-agent")
	l.tenant("tenant", l.Name+"-own")
	agent, err := agentchart.Render(agentIn(other.Name))
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
	tenant, err := d.accounts.find(t.Context(), "tenant")
	if err != nil {
		t.Fatal(err)
	}
	plain := "release web/x exists and belongs to no bundle: to take it over, service account " + l.Name + "/tenant needs the right to update secrets in namespace web"
	tests := map[string]struct {
		bundle, owner, agent string
		who                  *identity
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
			err := d.take(t.Context(), test.bundle, test.who, releaseKey{Namespace: "web", Name: "x"}, true, map[string]string{
				fleet.AnnotationBundleID: test.owner, fleet.AnnotationAgentNamespace: test.agent})
			expectError(t, err, test.want)
			if err != nil && reasonOf(err) != fleet.ReasonReleaseTaken {
				t.Errorf("reason %s", reasonOf(err))
			}
		})
	}
	if err := d.take(t.Context(), "x", tenant, releaseKey{}, false, nil); err != nil {
		t.Errorf("no release: %v", err)
	}
}
