package handshake_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

// What happens to an agent in place when something changes.
type reaction string

const (
	nothing     reaction = "nothing"
	inPlace     reaction = "applied in place, the agent keeps its identity"
	readdressed reaction = "applied in place, and the agent's stored address is rewritten"
	anew        reaction = "applied, and the agent registers anew"
	elsewhere   reaction = "applied elsewhere, and the agent registers anew"
)

func TestImportReacts(t *testing.T) {
	tests := map[string]struct {
		change importChange
		want   reaction
	}{
		"no change": {func(*handshake.ImportInput) {}, nothing},

		// Settings of the agent.
		"an environment variable":              {spec(func(s *fleet.ClusterSpec) { s.AgentEnvVars = []corev1.EnvVar{{Name: "A"}} }), inPlace},
		"no environment variables, but a list": {spec(func(s *fleet.ClusterSpec) { s.AgentEnvVars = []corev1.EnvVar{} }), nothing},
		"an affinity":                          {spec(func(s *fleet.ClusterSpec) { s.AgentAffinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }), inPlace},
		"an empty affinity, which is one":      {spec(func(s *fleet.ClusterSpec) { s.AgentAffinity = &corev1.Affinity{} }), inPlace},
		"resources": {spec(func(s *fleet.ClusterSpec) {
			s.AgentResources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": quantity("1")}}
		}), inPlace},
		"a toleration":               {spec(func(s *fleet.ClusterSpec) { s.AgentTolerations = []corev1.Toleration{{Key: "a"}} }), inPlace},
		"no tolerations, but a list": {spec(func(s *fleet.ClusterSpec) { s.AgentTolerations = []corev1.Toleration{} }), nothing},
		"a priority": {spec(func(s *fleet.ClusterSpec) {
			s.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: 1}}
		}), inPlace},
		"a registry":                             {spec(func(s *fleet.ClusterSpec) { s.PrivateRepoURL = "registry.example" }), inPlace},
		"the host's network":                     {spec(func(s *fleet.ClusterSpec) { s.HostNetwork = ptr(true) }), inPlace},
		"not the host's network, said aloud":     {spec(func(s *fleet.ClusterSpec) { s.HostNetwork = ptr(false) }), nothing},
		"the TLS mode":                           {conf(func(c *config.Config) { c.AgentTLSMode = config.TLSModeStrict }), readdressed},
		"the interval of the garbage collection": {conf(func(c *config.Config) { c.GarbageCollectionInterval = metav1.Duration{Duration: time.Hour} }), inPlace},

		// What is not told by the status, and so comes with the next import.
		"pull secrets":      {spec(func(s *fleet.ClusterSpec) { s.AgentPullSecrets = &[]corev1.LocalObjectReference{{Name: "a"}} }), nothing},
		"labels":            {cluster(func(c *fleet.Cluster) { c.Labels = map[string]string{"env": "prod"} }), nothing},
		"the agent's image": {conf(func(c *config.Config) { c.AgentImage = "other" }), nothing},
		"another Secret":    {withSecret("value", "another kubeconfig"), nothing},

		// Requests for an import.
		"the flag":                            {status(func(s *fleet.ClusterStatus) { s.AgentConfigChanged = true }), inPlace},
		"an agent of before the migration":    {status(func(s *fleet.ClusterStatus) { s.AgentMigrated = false }), inPlace},
		"before that of the system namespace": {status(func(s *fleet.ClusterStatus) { s.CattleNamespaceMigrated = false }), inPlace},
		"before that of agent namespaces":     {status(func(s *fleet.ClusterStatus) { s.AgentNamespaceMigrated = false }), inPlace},
		"another generation":                  {spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration = 1 }), anew},
		"an earlier generation":               {spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration = -1 }), anew},
		"no generation at all":                {status(func(s *fleet.ClusterStatus) { s.AgentDeployedGeneration = nil }), anew},

		// The hub's address.
		"another URL of the hub":    {conf(func(c *config.Config) { c.APIServerURL = "https://new.example" }), readdressed},
		"another CA of the hub":     {conf(func(c *config.Config) { c.APIServerCA = []byte("new") }), readdressed},
		"another URL in the Secret": {withSecret("apiServerURL", "https://new.example"), readdressed},
		"another CA in the Secret":  {withSecret("apiServerCA", "new"), readdressed},
		"the same address in the Secret": {func(in *handshake.ImportInput) {
			withSecret("apiServerURL", hubURL)(in)
			withSecret("apiServerCA", hubCA)(in)
		}, nothing},
		"an address that the Secret does not use": {func(in *handshake.ImportInput) {
			withSecret("apiServerURL", hubURL)(in)
			in.Config.APIServerURL = "https://new.example"
		}, nothing},

		// Moves.
		"a heartbeat from where it should be": {seenIn("cattle-fleet-system"), nothing},
		"another namespace": {func(in *handshake.ImportInput) {
			seenIn("cattle-fleet-system")(in)
			in.Cluster.Spec.AgentNamespace = "agents"
		}, elsewhere},
		"another namespace, never seen":   {spec(func(s *fleet.ClusterSpec) { s.AgentNamespace = "agents" }), elsewhere},
		"a namespace that was taken back": {seenIn("agents"), elsewhere},
		"one that was taken back and a setting": {func(in *handshake.ImportInput) {
			seenIn("agents")(in)
			in.Cluster.Spec.PrivateRepoURL = "registry.example"
		}, elsewhere},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := pure(t, handshake.Import, carriedOut(test.change))
			checkImportOutcome(t, out)
			expectEqual(t, "reaction", reactionOf(t, out), test.want)
		})
	}
}

func reactionOf(t *testing.T, out handshake.ImportOutcome) reaction {
	t.Helper()
	switch {
	case out.Stage == handshake.ImportInSync:
		return nothing
	case out.Stage != handshake.ImportNeedsAgent:
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

// Once a setting was applied it is at rest again, and taking it back is a change like any other.
func TestImportSettingsThereAndBack(t *testing.T) {
	in := carriedOut(spec(everySetting))
	out := pure(t, handshake.Import, in)
	expectEqual(t, "there", reactionOf(t, out), inPlace)
	note(&in.Cluster.Status, out)
	expectEqual(t, "rest", reactionOf(t, pure(t, handshake.Import, in)), nothing)
	in.Cluster.Spec = importInput().Cluster.Spec
	out = pure(t, handshake.Import, in)
	expectEqual(t, "back", reactionOf(t, out), inPlace)
	note(&in.Cluster.Status, out)
	expectEqual(t, "status", in.Cluster.Status, carriedOut().Cluster.Status)
}

// Status fields of another implementation that are absent where nothing was set are no change.
func TestImportTakesOver(t *testing.T) {
	in := carriedOut(conf(func(c *config.Config) { c.GarbageCollectionInterval = metav1.Duration{} }))
	in.Cluster.Status.GarbageCollectionInterval = nil
	expectEqual(t, "stage", pure(t, handshake.Import, in).Stage, handshake.ImportInSync)
}

func TestKubeconfigNamespaceAllowed(t *testing.T) {
	tests := map[string]struct {
		workspace, named string
		want             bool
	}{
		"none is the Cluster's own":         {"fleet-default", "", true},
		"the Cluster's own":                 {"team-a", "team-a", true},
		"the Cluster's own, whatever it is": {"cattle-system", "cattle-system", true},
		"the common workspace":              {"team-a", "fleet-default", true},
		"the local workspace":               {"team-a", "fleet-local", true},
		"the system namespace":              {"team-a", "cattle-fleet-system", true},
		"the registration namespace":        {"team-a", "cattle-fleet-clusters-system", true},
		"the old system namespace":          {"team-a", "fleet-system", true},
		"the old registration namespace":    {"team-a", "fleet-clusters-system", true},
		"a cluster namespace":               {"team-a", "cluster-fleet-default-east-0f0350029557", true},
		"anything that looks like one":      {"team-a", "cluster-x", true},
		"kube-system":                       {"team-a", "kube-system", false},
		"another's cattle-system":           {"team-a", "cattle-system", false},
		"default":                           {"team-a", "default", false},
		"another team's":                    {"team-a", "team-b", false},
		"one that only begins like one":     {"team-a", "clusterroles", false},
		"one that begins like the common":   {"team-a", "fleet-default-2", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := importInput(cluster(func(c *fleet.Cluster) { c.Namespace, c.Spec.KubeConfigSecretNamespace = test.workspace, test.named }))
			expectEqual(t, "allowed", handshake.KubeconfigNamespaceAllowed(in.Cluster), test.want)
			out := pure(t, handshake.Import, in)
			expectEqual(t, "refused", out.Reason == fleet.ReasonKubeconfigNamespaceRefused, !test.want)
			where := test.named
			if where == "" {
				where = test.workspace
			}
			expectEqual(t, "key", handshake.KubeconfigSecret(in.Cluster).String(), where+"/east-kubeconfig")
		})
	}
	expectEqual(t, "key of a Cluster that names none", handshake.KubeconfigSecret(aCluster()), types.NamespacedName{})
}

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
