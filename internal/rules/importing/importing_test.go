package importing_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestImport(t *testing.T) {
	tests := map[string]struct {
		in   importing.Input
		want importing.Stage
	}{
		// Clusters that are not imported.
		"a Cluster without a kubeconfig waits for its agent": {importInput(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), importing.None},
		"a Cluster that goes is left":                        {importInput(cluster(rulestest.ClusterGoing)), importing.None},
		"a Cluster of another manager is left": {importInput(cluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: "rancher"}
		})), importing.None},
		"an empty label names no manager": {importInput(cluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: ""}
		})), importing.NeedsToken},

		// Client IDs.
		"a Cluster that no agent can join":                  {importInput(cluster(rulestest.ClusterClient("")), spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), importing.Blocked},
		"a client ID that an older Cluster has":             {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2 * time.Hour)))), importing.Blocked},
		"also of a Cluster that waits for its agent":        {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour))), spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), importing.Blocked},
		"also long after the first import to a namesake":    {carriedOut(namesake(rulestest.ClusterMadeAt(rulestest.At(-2 * time.Hour)))), importing.Blocked},
		"of the same age the first by name has a client ID": {importInput(namesake(rulestest.ClusterNamed("aaa"))), importing.Blocked},
		"of three the oldest is named":                      {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour))), namesake(rulestest.ClusterNamed("oldest"), rulestest.ClusterUID("third"), rulestest.ClusterMadeAt(rulestest.At(-3*time.Hour)))), importing.Blocked},
		"the oldest Cluster of a client ID goes on":         {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-time.Minute)))), importing.NeedsToken},
		"a Cluster that goes takes its client ID along":     {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour)), rulestest.ClusterGoing)), importing.NeedsToken},
		"a Cluster found with a client ID it no longer has": {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour)), rulestest.ClusterClient("c2"))), importing.NeedsToken},
		"a Cluster is no namesake of itself":                {importInput(func(in *importing.Input) { in.Namesakes = []*fleet.Cluster{in.Cluster.DeepCopy()} }), importing.NeedsToken},
		"without a client ID nobody is anybody's namesake":  {importInput(cluster(rulestest.ClusterClient("")), namesake(rulestest.ClusterClient(""), rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour)))), importing.NeedsClientID},

		// The client ID and the token.
		"a Cluster without a client ID gets one":             {importInput(cluster(rulestest.ClusterClient(""))), importing.NeedsClientID},
		"a new Cluster gets an import token":                 {importInput(), importing.NeedsToken},
		"a token without values is waited for":               {importInput(withToken, func(in *importing.Input) { in.Values = nil }), importing.AwaitingToken},
		"a token that names no Secret yet is waited for":     {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.Status.SecretName = "" })), importing.AwaitingToken},
		"a token is no use while it goes":                    {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) })), importing.AwaitingToken},
		"values of another type are nobody's":                {importInput(withToken, func(in *importing.Input) { in.Values.Type = corev1.SecretTypeOpaque }), importing.AwaitingToken},
		"a token in trouble is told":                         {importInput(withToken, tokenTrouble(conditions.ReasonSecretNameTaken), func(in *importing.Input) { in.Values = nil }), importing.Blocked},
		"one that only takes its time is not":                {importInput(withToken, tokenTrouble(conditions.ReasonAwaitingRights), func(in *importing.Input) { in.Values = nil }), importing.AwaitingToken},
		"values without a bearer token are none yet":         {importInput(withToken, func(in *importing.Input) { in.Values = rulestest.ValuesSecret("") }), importing.AwaitingToken},
		"a token that ends too soon is renewed":              {importInput(withToken, importTokenUntil(importing.TokenReserve-time.Second)), importing.NeedsToken},
		"one that ends just late enough is used":             {importInput(withToken, importTokenUntil(importing.TokenReserve)), importing.NeedsAgent},
		"one without an end is used":                         {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.Status.Expires = nil })), importing.NeedsAgent},
		"one made by hand is used":                           {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences = nil })), importing.NeedsAgent},
		"one of an earlier Cluster of the name goes with it": {importInput(withToken, cluster(rulestest.ClusterUID("another-uid"))), importing.NeedsToken},

		// The first import.
		"with a token the agent is deployed":                      {importInput(withToken), importing.NeedsAgent},
		"into the namespace the Cluster asks for":                 {importInput(withToken, spec(func(s *fleet.ClusterSpec) { s.AgentNamespace = "agents" })), importing.NeedsAgent},
		"with the address that the kubeconfig Secret knows":       {importInput(withToken, withSecret("apiServerURL", "https://other.example"), withSecret("apiServerCA", "other CA")), importing.NeedsAgent},
		"with half an address from the Secret and half from here": {importInput(withToken, withSecret("apiServerURL", "https://other.example")), importing.NeedsAgent},
		"without a CA where the system's roots may do":            {importInput(withToken, conf(func(c *config.Config) { c.APIServerCA = nil })), importing.NeedsAgent},
		"an import that half-failed is tried whole":               {importInput(withToken, status(func(s *fleet.ClusterStatus) { s.APIServerURL, s.AgentMigrated = rulestest.HubURL, true })), importing.NeedsAgent},
		"with every setting the Cluster has":                      {importInput(withToken, spec(everySetting)), importing.NeedsAgent},

		// Obstacles.
		"a kubeconfig of a namespace that is not allowed":        {importInput(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "kube-system" })), importing.Blocked},
		"a kubeconfig that is not there":                         {importInput(withoutSecret), importing.Blocked},
		"one that is not there in another namespace":             {importInput(withoutSecret, spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "fleet-local" })), importing.Blocked},
		"a Secret without a kubeconfig":                          {importInput(withSecret("value", "")), importing.Blocked},
		"a hub that does not know its address":                   {importInput(conf(func(c *config.Config) { c.APIServerURL = "" })), importing.Blocked},
		"no TLS mode":                                            {importInput(conf(func(c *config.Config) { c.AgentTLSMode = "" })), importing.Blocked},
		"an unknown TLS mode":                                    {importInput(conf(func(c *config.Config) { c.AgentTLSMode = "lax" })), importing.Blocked},
		"strictness without a CA to be strict about":             {importInput(conf(func(c *config.Config) { c.AgentTLSMode, c.APIServerCA = config.TLSModeStrict, nil })), importing.Blocked},
		"strictness with the Secret's CA is none":                {importInput(withSecret("apiServerCA", "CA"), conf(func(c *config.Config) { c.AgentTLSMode, c.APIServerCA = config.TLSModeStrict, nil })), importing.NeedsToken},
		"an address in the Secret is none, either":               {importInput(withSecret("apiServerURL", "https://x.example"), conf(func(c *config.Config) { c.APIServerURL = "" })), importing.NeedsToken},
		"also long after the first import":                       {carriedOut(conf(func(c *config.Config) { c.AgentTLSMode = "lax" })), importing.Blocked},
		"of two obstacles the first is told":                     {importInput(withoutSecret, conf(func(c *config.Config) { c.APIServerURL = "" })), importing.Blocked},
		"no obstacle to an agent that is as it should be":        {carriedOut(withoutSecret), importing.InSync},
		"no token is needed by an agent that is in place":        {carriedOut(func(in *importing.Input) { in.Token, in.Values = nil, nil }), importing.InSync},
		"an inherited agent that is as it should be is left":     {carriedOut(inherited), importing.InSync},
		"one that should have another setting is left, and told": {carriedOut(inherited, spec(everySetting)), importing.Blocked},
		"so is one that is to be deployed anew":                  {carriedOut(inherited, spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration++ })), importing.Blocked},
		"so is one that does not know the hub's new address":     {carriedOut(inherited, conf(func(c *config.Config) { c.APIServerURL = "https://new.example" })), importing.Blocked},
		"nor by one that only gets another setting":              {carriedOut(func(in *importing.Input) { in.Token, in.Values = nil, nil }, spec(everySetting)), importing.NeedsAgent},
	}
	golden := rulestest.GoldenOf(t, "import")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, importing.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			golden.Expect(t, name, rulestest.YAML(t, got))
			checkImportOutcome(t, got)
		})
	}
}

// inherited marks the agent as deployed by Rancher Fleet.
func inherited(in *importing.Input) { in.Inherited = true }

// checkImportOutcome checks what holds for every outcome.
func checkImportOutcome(t *testing.T, out importing.Outcome) {
	t.Helper()
	if (out.Deploy != nil) != (out.Stage == importing.NeedsAgent) || (out.Remove != nil) != (out.Stage == importing.MustRemove) {
		t.Error("an agent is deployed in stage NeedsAgent, removed in MustRemove, and left alone in any other")
	}
	if (out.CreateToken != nil || out.RenewToken) != (out.Stage == importing.NeedsToken) || out.CreateToken != nil && out.RenewToken {
		t.Error("a token is either made or renewed in stage NeedsToken, and neither in any other")
	}
	if (out.Reason != "") != (out.Stage == importing.Blocked) || (out.Reason == "") != (out.Message == "") {
		t.Error("a blocked import has a reason and says what to do, and nothing else has")
	}
	if out.Deploy == nil {
		return
	}
	if out.Deploy.NewRegistration != (out.Deploy.Values.Bootstrap != nil) || out.Deploy.NewRegistration != out.Done.ResetAgent {
		t.Error("an agent that has to register anew gets what it needs for that, and its heartbeat is forgotten")
	}
	if out.Deploy.Values.Config == nil {
		t.Error("an agent without its configuration")
	}
}

// everySetting sets all settings of the agent.
func everySetting(s *fleet.ClusterSpec) {
	s.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
	s.AgentAffinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	s.AgentResources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: quantity("1Gi")}}
	s.AgentTolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	s.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{
		PriorityClass:       &fleet.PriorityClassSpec{Value: 7},
		PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
	}
	s.AgentPullSecrets = &[]corev1.LocalObjectReference{{Name: "mine"}}
	s.PrivateRepoURL, s.HostNetwork = "registry.example", rulestest.Ptr(true)
}

func TestImportTokenIsOwnedByItsCluster(t *testing.T) {
	got := rulestest.Pure(t, importing.Decide, importInput()).CreateToken
	want := &fleet.ClusterRegistrationToken{
		TypeMeta: metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rulestest.Workspace, Name: "import-token-east",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "east", UID: "cluster-uid"}},
		},
		Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: 12 * time.Hour}},
	}
	rulestest.ExpectEqual(t, "import token", got, want)
}

// After an import, nothing is left to do, however often the Cluster is reconciled.
func TestFinishedImport_IsInSync(t *testing.T) {
	tests := map[string]importing.Input{
		"the first import":         importInput(withToken),
		"with every setting":       importInput(withToken, spec(everySetting)),
		"in another namespace":     importInput(withToken, spec(func(s *fleet.ClusterSpec) { s.AgentNamespace = "agents" })),
		"out of a namespace":       carriedOut(seenIn("agents"), status(func(s *fleet.ClusterStatus) { s.AgentConfigChanged = true })),
		"asked for":                carriedOut(spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration = -1 })),
		"with a flag set":          carriedOut(status(func(s *fleet.ClusterStatus) { s.AgentConfigChanged = true })),
		"without garbage interval": importInput(withToken, conf(func(c *config.Config) { c.GarbageCollectionInterval = metav1.Duration{} })),
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, importing.Decide, in)
			rulestest.ExpectEqual(t, "first", out.Stage, importing.NeedsAgent)
			rulestest.Note(&in.Cluster.Status, out)
			rulestest.ExpectEqual(t, "then", rulestest.Pure(t, importing.Decide, in).Stage, importing.InSync)
			in.Cluster.Status.Agent = fleet.AgentStatus{LastSeen: rulestest.At(0), Namespace: out.Deploy.Values.Namespace}
			rulestest.ExpectEqual(t, "after the first heartbeat", rulestest.Pure(t, importing.Decide, in).Stage, importing.InSync)
		})
	}
}
