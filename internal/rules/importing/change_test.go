package importing_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	"github.com/fleet-hub/fleet/internal/rules/state"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

// reaction is what happens to a deployed agent when something changes.
type reaction string

const (
	nothing     reaction = "nothing"
	inPlace     reaction = "applied in place, the agent keeps its identity"
	readdressed reaction = "applied in place, and the agent's stored address is rewritten"
	anew        reaction = "applied, and the agent registers anew"
	elsewhere   reaction = "applied elsewhere, and the agent registers anew"
)

func TestImport_ReactionToChanges(t *testing.T) {
	tests := map[string]struct {
		change importChange
		want   reaction
	}{
		"no change": {func(*importing.Input) {}, nothing},

		// Settings of the agent.
		"an environment variable":                {spec(func(s *fleet.ClusterSpec) { s.AgentEnvVars = []corev1.EnvVar{{Name: "A"}} }), inPlace},
		"an empty list of environment variables": {spec(func(s *fleet.ClusterSpec) { s.AgentEnvVars = []corev1.EnvVar{} }), nothing},
		"an affinity":                            {spec(func(s *fleet.ClusterSpec) { s.AgentAffinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }), inPlace},
		"an empty affinity":                      {spec(func(s *fleet.ClusterSpec) { s.AgentAffinity = &corev1.Affinity{} }), inPlace},
		"resources": {spec(func(s *fleet.ClusterSpec) {
			s.AgentResources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": quantity("1")}}
		}), inPlace},
		"a toleration":                 {spec(func(s *fleet.ClusterSpec) { s.AgentTolerations = []corev1.Toleration{{Key: "a"}} }), inPlace},
		"an empty list of tolerations": {spec(func(s *fleet.ClusterSpec) { s.AgentTolerations = []corev1.Toleration{} }), nothing},
		"a priority": {spec(func(s *fleet.ClusterSpec) {
			s.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: 1}}
		}), inPlace},
		"a registry":                             {spec(func(s *fleet.ClusterSpec) { s.PrivateRepoURL = "registry.example" }), inPlace},
		"the host's network":                     {spec(func(s *fleet.ClusterSpec) { s.HostNetwork = rulestest.Ptr(true) }), inPlace},
		"the host's network is false":            {spec(func(s *fleet.ClusterSpec) { s.HostNetwork = rulestest.Ptr(false) }), nothing},
		"the TLS mode":                           {conf(func(c *config.Config) { c.AgentTLSMode = config.TLSModeStrict }), readdressed},
		"the interval of the garbage collection": {conf(func(c *config.Config) { c.GarbageCollectionInterval = metav1.Duration{Duration: time.Hour} }), inPlace},
		"URLs that are too long for the status": {func(in *importing.Input) {
			registry, hub := "registry.example/"+strings.Repeat("x", fleet.MaxURL), "https://hub.example/"+strings.Repeat("x", fleet.MaxURL)
			withSecret("apiServerURL", hub)(in)
			in.Cluster.Spec.PrivateRepoURL = registry
			in.Cluster.Status.APIServerURL, in.Cluster.Status.AgentPrivateRepoURL = hub, registry
			state.Bound(in.Cluster)
		}, nothing},

		// Not in the status, so it is applied with the next import.
		"pull secrets":      {spec(func(s *fleet.ClusterSpec) { s.AgentPullSecrets = &[]corev1.LocalObjectReference{{Name: "a"}} }), nothing},
		"labels":            {cluster(func(c *fleet.Cluster) { c.Labels = map[string]string{"env": "prod"} }), nothing},
		"the agent's image": {conf(func(c *config.Config) { c.AgentImage = "other" }), nothing},
		"another Secret":    {withSecret("value", "another kubeconfig"), nothing},

		// Requests for an import.
		"the flag for a new deployment":                              {status(func(s *fleet.ClusterStatus) { s.AgentConfigChanged = true }), inPlace},
		"an agent from before the migration":                         {status(func(s *fleet.ClusterStatus) { s.AgentMigrated = false }), inPlace},
		"an agent from before the migration of the system namespace": {status(func(s *fleet.ClusterStatus) { s.CattleNamespaceMigrated = false }), inPlace},
		"an agent from before the migration of agent namespaces":     {status(func(s *fleet.ClusterStatus) { s.AgentNamespaceMigrated = false }), inPlace},
		"another generation":                                         {spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration = 1 }), anew},
		"an earlier generation":                                      {spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration = -1 }), anew},
		"no generation at all":                                       {status(func(s *fleet.ClusterStatus) { s.AgentDeployedGeneration = nil }), anew},

		// The hub's address.
		"another URL of the hub":    {conf(func(c *config.Config) { c.APIServerURL = "https://new.example" }), readdressed},
		"another CA of the hub":     {conf(func(c *config.Config) { c.APIServerCA = []byte(rulestest.OtherCA) }), readdressed},
		"another URL in the Secret": {withSecret("apiServerURL", "https://new.example"), readdressed},
		"another CA in the Secret":  {withSecret("apiServerCA", rulestest.OtherCA), readdressed},
		"the same address in the Secret": {func(in *importing.Input) {
			withSecret("apiServerURL", rulestest.HubURL)(in)
			withSecret("apiServerCA", rulestest.HubCA)(in)
		}, nothing},
		"an address that the Secret does not use": {func(in *importing.Input) {
			withSecret("apiServerURL", rulestest.HubURL)(in)
			in.Config.APIServerURL = "https://new.example"
		}, nothing},

		// Moves.
		"a heartbeat from the desired namespace": {seenIn("cattle-fleet-system"), nothing},
		"another namespace": {func(in *importing.Input) {
			seenIn("cattle-fleet-system")(in)
			in.Cluster.Spec.AgentNamespace = "agents"
		}, elsewhere},
		"another namespace, never seen":             {spec(func(s *fleet.ClusterSpec) { s.AgentNamespace = "agents" }), elsewhere},
		"a change of the namespace that was undone": {seenIn("agents"), elsewhere},
		"a change of the namespace that was undone, and a setting": {func(in *importing.Input) {
			seenIn("agents")(in)
			in.Cluster.Spec.PrivateRepoURL = "registry.example"
		}, elsewhere},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, importing.Decide, carriedOut(test.change))
			checkImportOutcome(t, out)
			rulestest.ExpectEqual(t, "reaction", reactionOf(t, out), test.want)
		})
	}
}

// A URL from the Secret is the choice of a user, and the hub connects to it only under the rules for kubeconfigs.
func TestNewHubAddress_SaysWhetherTheSecretChoseIt(t *testing.T) {
	newURL := conf(func(c *config.Config) { c.APIServerURL = "https://new.example" })
	tests := map[string]struct {
		change importChange
		want   importing.HubAddress
	}{
		"another URL of the hub":   {newURL, importing.HubAddress{URL: "https://new.example", CA: []byte(rulestest.HubCA)}},
		"another CA in the Secret": {withSecret("apiServerCA", rulestest.OtherCA), importing.HubAddress{URL: rulestest.HubURL, CA: []byte(rulestest.OtherCA)}},
		"another URL in the Secret": {
			withSecret("apiServerURL", "https://new.example"),
			importing.HubAddress{URL: "https://new.example", CA: []byte(rulestest.HubCA), FromSecret: true},
		},
		"another URL of the hub, also in the Secret": {func(in *importing.Input) {
			newURL(in)
			withSecret("apiServerURL", "https://new.example")(in)
		}, importing.HubAddress{URL: "https://new.example", CA: []byte(rulestest.HubCA)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, importing.Decide, carriedOut(test.change))
			if out.Deploy == nil || out.Deploy.Readdress == nil {
				t.Fatal("the agent gets no new address")
			}
			rulestest.ExpectEqual(t, "address", *out.Deploy.Readdress, test.want)
		})
	}
}

func reactionOf(t *testing.T, out importing.Outcome) reaction {
	t.Helper()
	switch {
	case out.Stage == importing.InSync:
		return nothing
	case out.Stage != importing.NeedsAgent:
		t.Fatalf("stage %s", out.Stage)
	case out.Deploy.LeaveNamespace != "" && out.Deploy.NewRegistration:
		return elsewhere
	case out.Deploy.LeaveNamespace != "":
		t.Error("an agent leaves its namespace and its identity, and gets no other")
	case out.Deploy.NewRegistration:
		return anew
	}
	if out.Deploy.Readdress != nil {
		return readdressed
	}
	return inPlace
}

// Once a setting was applied, the import is in sync again. Reverting it is a change like any other.
func TestRevertedSetting_IsAppliedAgain(t *testing.T) {
	in := carriedOut(spec(everySetting))
	out := rulestest.Pure(t, importing.Decide, in)
	rulestest.ExpectEqual(t, "there", reactionOf(t, out), inPlace)
	rulestest.Note(&in.Cluster.Status, out)
	rulestest.ExpectEqual(t, "rest", reactionOf(t, rulestest.Pure(t, importing.Decide, in)), nothing)
	in.Cluster.Spec = importInput().Cluster.Spec
	out = rulestest.Pure(t, importing.Decide, in)
	rulestest.ExpectEqual(t, "back", reactionOf(t, out), inPlace)
	rulestest.Note(&in.Cluster.Status, out)
	rulestest.ExpectEqual(t, "status", in.Cluster.Status, carriedOut().Cluster.Status)
}

// Status fields that Rancher Fleet leaves empty for unset settings are not a change.
func TestUnsetStatusFields_ChangeNothing(t *testing.T) {
	in := carriedOut(conf(func(c *config.Config) { c.GarbageCollectionInterval = metav1.Duration{} }))
	in.Cluster.Status.GarbageCollectionInterval = nil
	rulestest.ExpectEqual(t, "stage", rulestest.Pure(t, importing.Decide, in).Stage, importing.InSync)
}

// With manageAgent false, the agent's Bundle is not updated. Only the settings in the Bundle wait.
func TestFrozenSettings_BlockNothingElse(t *testing.T) {
	tests := map[string]struct {
		change importChange
		want   reaction
		reason string // at once
	}{
		"only a setting changed: it waits":                 {func(*importing.Input) {}, nothing, conditions.ReasonAgentFrozen},
		"another URL of the hub reaches the agent":         {conf(func(c *config.Config) { c.APIServerURL = "https://new.example" }), readdressed, ""},
		"another CA of the hub reaches the agent":          {conf(func(c *config.Config) { c.APIServerCA = []byte(rulestest.OtherCA) }), readdressed, ""},
		"another generation: the agent registers again":    {spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration = 1 }), anew, ""},
		"a repair is carried out":                          {func(in *importing.Input) { in.Repair = supervision.RepairObjects }, inPlace, ""},
		"another kubeconfig of the same cluster is proven": {func(in *importing.Input) { in.Doubted = true }, inPlace, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := carriedOut(seenIn("cattle-fleet-system"), spec(func(s *fleet.ClusterSpec) { s.PrivateRepoURL = "registry.example" }), withToken)
			in.Bundle = &fleet.Bundle{Spec: fleet.BundleSpec{BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: "cattle-fleet-system"}}}
			in.Config.ManageAgent = new(bool)
			test.change(&in)
			out := rulestest.Pure(t, importing.Decide, in)
			rulestest.ExpectEqual(t, "reason", out.Reason, test.reason)
			if test.reason != "" {
				return
			}
			rulestest.ExpectEqual(t, "reaction", reactionOf(t, out), test.want)
			rulestest.Note(&in.Cluster.Status, out)
			in.Repair, in.Doubted = supervision.RepairNone, false
			if test.want == anew {
				out := rulestest.Pure(t, importing.Decide, in)
				rulestest.ExpectEqual(t, "stage while the agent is awaited", out.Stage, importing.InSync)
				rulestest.ExpectEqual(t, "looked for", out.Supervise, true)
				seenIn("cattle-fleet-system")(&in)
			}
			out = rulestest.Pure(t, importing.Decide, in)
			rulestest.ExpectEqual(t, "reason afterwards", out.Reason, conditions.ReasonAgentFrozen)
			if want := "kubectl delete bundles.fleet.cattle.io -n fleet-default fleet-agent-east"; !strings.Contains(out.Message, want) {
				t.Errorf("%q does not say %q", out.Message, want)
			}
		})
	}
}
