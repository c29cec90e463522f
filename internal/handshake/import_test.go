package handshake_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestImport(t *testing.T) {
	tests := map[string]struct {
		in   handshake.ImportInput
		want handshake.ImportStage
	}{
		// Not ours to import.
		"a Cluster without a kubeconfig waits for its agent": {importInput(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), handshake.ImportNone},
		"a Cluster that goes is left":                        {importInput(cluster(clusterGoing)), handshake.ImportNone},
		"a Cluster of another manager is left": {importInput(cluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: "rancher"}
		})), handshake.ImportNone},
		"an empty label names no manager": {importInput(cluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: ""}
		})), handshake.ImportNeedsToken},

		// Whom an agent joins as.
		"a Cluster that no agent can join":                  {importInput(cluster(clusterClient("")), spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), handshake.ImportBlocked},
		"a client ID that an older Cluster has":             {importInput(namesake(clusterMadeAt(at(-2 * time.Hour)))), handshake.ImportBlocked},
		"also of a Cluster that waits for its agent":        {importInput(namesake(clusterMadeAt(at(-2*time.Hour))), spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), handshake.ImportBlocked},
		"also long after the first import to a namesake":    {carriedOut(namesake(clusterMadeAt(at(-2 * time.Hour)))), handshake.ImportBlocked},
		"of the same age the first by name has a client ID": {importInput(namesake(clusterNamed("aaa"))), handshake.ImportBlocked},
		"of three the oldest is named":                      {importInput(namesake(clusterMadeAt(at(-2*time.Hour))), namesake(clusterNamed("oldest"), clusterUID("third"), clusterMadeAt(at(-3*time.Hour)))), handshake.ImportBlocked},
		"the oldest Cluster of a client ID goes on":         {importInput(namesake(clusterMadeAt(at(-time.Minute)))), handshake.ImportNeedsToken},
		"a Cluster that goes takes its client ID along":     {importInput(namesake(clusterMadeAt(at(-2*time.Hour)), clusterGoing)), handshake.ImportNeedsToken},
		"a Cluster found with a client ID it no longer has": {importInput(namesake(clusterMadeAt(at(-2*time.Hour)), clusterClient("c2"))), handshake.ImportNeedsToken},
		"a Cluster is no namesake of itself":                {importInput(func(in *handshake.ImportInput) { in.Namesakes = []*fleet.Cluster{in.Cluster.DeepCopy()} }), handshake.ImportNeedsToken},
		"without a client ID nobody is anybody's namesake":  {importInput(cluster(clusterClient("")), namesake(clusterClient(""), clusterMadeAt(at(-2*time.Hour)))), handshake.ImportNeedsClientID},

		// The client ID and the token.
		"a Cluster without a client ID gets one":             {importInput(cluster(clusterClient(""))), handshake.ImportNeedsClientID},
		"a new Cluster gets an import token":                 {importInput(), handshake.ImportNeedsToken},
		"a token without values is waited for":               {importInput(withToken, func(in *handshake.ImportInput) { in.Values = nil }), handshake.ImportAwaitingToken},
		"a token that names no Secret yet is waited for":     {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.Status.SecretName = "" })), handshake.ImportAwaitingToken},
		"a token is no use while it goes":                    {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.DeletionTimestamp = ptr(at(0)) })), handshake.ImportAwaitingToken},
		"values of another type are nobody's":                {importInput(withToken, func(in *handshake.ImportInput) { in.Values.Type = corev1.SecretTypeOpaque }), handshake.ImportAwaitingToken},
		"a token in trouble is told":                         {importInput(withToken, tokenTrouble(fleet.ReasonSecretNameTaken), func(in *handshake.ImportInput) { in.Values = nil }), handshake.ImportBlocked},
		"one that only takes its time is not":                {importInput(withToken, tokenTrouble(fleet.ReasonAwaitingRights), func(in *handshake.ImportInput) { in.Values = nil }), handshake.ImportAwaitingToken},
		"values without a bearer token are none yet":         {importInput(withToken, func(in *handshake.ImportInput) { in.Values = valuesSecret("") }), handshake.ImportAwaitingToken},
		"a token that ends too soon is renewed":              {importInput(withToken, importTokenUntil(handshake.ImportTokenReserve-time.Second)), handshake.ImportNeedsToken},
		"one that ends just late enough is used":             {importInput(withToken, importTokenUntil(handshake.ImportTokenReserve)), handshake.ImportNeedsAgent},
		"one without an end is used":                         {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.Status.Expires = nil })), handshake.ImportNeedsAgent},
		"one made by hand is used":                           {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences = nil })), handshake.ImportNeedsAgent},
		"one of an earlier Cluster of the name goes with it": {importInput(withToken, cluster(clusterUID("another-uid"))), handshake.ImportNeedsToken},

		// The first import.
		"with a token the agent is deployed":                      {importInput(withToken), handshake.ImportNeedsAgent},
		"into the namespace the Cluster asks for":                 {importInput(withToken, spec(func(s *fleet.ClusterSpec) { s.AgentNamespace = "agents" })), handshake.ImportNeedsAgent},
		"with the address that the kubeconfig Secret knows":       {importInput(withToken, withSecret("apiServerURL", "https://other.example"), withSecret("apiServerCA", "other CA")), handshake.ImportNeedsAgent},
		"with half an address from the Secret and half from here": {importInput(withToken, withSecret("apiServerURL", "https://other.example")), handshake.ImportNeedsAgent},
		"without a CA where the system's roots may do":            {importInput(withToken, conf(func(c *config.Config) { c.APIServerCA = nil })), handshake.ImportNeedsAgent},
		"an import that half-failed is tried whole":               {importInput(withToken, status(func(s *fleet.ClusterStatus) { s.APIServerURL, s.AgentMigrated = hubURL, true })), handshake.ImportNeedsAgent},
		"with every setting the Cluster has":                      {importInput(withToken, spec(everySetting)), handshake.ImportNeedsAgent},

		// Obstacles.
		"a kubeconfig of a namespace that is not allowed":        {importInput(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "kube-system" })), handshake.ImportBlocked},
		"a kubeconfig that is not there":                         {importInput(withoutSecret), handshake.ImportBlocked},
		"one that is not there in another namespace":             {importInput(withoutSecret, spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "fleet-local" })), handshake.ImportBlocked},
		"a Secret without a kubeconfig":                          {importInput(withSecret("value", "")), handshake.ImportBlocked},
		"a hub that does not know its address":                   {importInput(conf(func(c *config.Config) { c.APIServerURL = "" })), handshake.ImportBlocked},
		"no TLS mode":                                            {importInput(conf(func(c *config.Config) { c.AgentTLSMode = "" })), handshake.ImportBlocked},
		"an unknown TLS mode":                                    {importInput(conf(func(c *config.Config) { c.AgentTLSMode = "lax" })), handshake.ImportBlocked},
		"strictness without a CA to be strict about":             {importInput(conf(func(c *config.Config) { c.AgentTLSMode, c.APIServerCA = config.TLSModeStrict, nil })), handshake.ImportBlocked},
		"strictness with the Secret's CA is none":                {importInput(withSecret("apiServerCA", "CA"), conf(func(c *config.Config) { c.AgentTLSMode, c.APIServerCA = config.TLSModeStrict, nil })), handshake.ImportNeedsToken},
		"an address in the Secret is none, either":               {importInput(withSecret("apiServerURL", "https://x.example"), conf(func(c *config.Config) { c.APIServerURL = "" })), handshake.ImportNeedsToken},
		"also long after the first import":                       {carriedOut(conf(func(c *config.Config) { c.AgentTLSMode = "lax" })), handshake.ImportBlocked},
		"of two obstacles the first is told":                     {importInput(withoutSecret, conf(func(c *config.Config) { c.APIServerURL = "" })), handshake.ImportBlocked},
		"no obstacle to an agent that is as it should be":        {carriedOut(withoutSecret), handshake.ImportInSync},
		"no token is needed by an agent that is in place":        {carriedOut(func(in *handshake.ImportInput) { in.Token, in.Values = nil, nil }), handshake.ImportInSync},
		"an inherited agent that is as it should be is left":     {carriedOut(inherited), handshake.ImportInSync},
		"one that should have another setting is left, and told": {carriedOut(inherited, spec(everySetting)), handshake.ImportBlocked},
		"so is one that is to be deployed anew":                  {carriedOut(inherited, spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration++ })), handshake.ImportBlocked},
		"so is one that does not know the hub's new address":     {carriedOut(inherited, conf(func(c *config.Config) { c.APIServerURL = "https://new.example" })), handshake.ImportBlocked},
		"nor by one that only gets another setting":              {carriedOut(func(in *handshake.ImportInput) { in.Token, in.Values = nil, nil }, spec(everySetting)), handshake.ImportNeedsAgent},
	}
	golden := goldenOf(t, "import")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := pure(t, handshake.Import, test.in)
			expectEqual(t, "stage", got.Stage, test.want)
			golden.expect(t, name, told(t, got))
			checkImportOutcome(t, got)
		})
	}
}

// inherited: the agent is another implementation's.
func inherited(in *handshake.ImportInput) { in.Inherited = true }

// checkImportOutcome holds for every Cluster.
func checkImportOutcome(t *testing.T, out handshake.ImportOutcome) {
	t.Helper()
	if (out.Deploy != nil) != (out.Stage == handshake.ImportNeedsAgent) || (out.Remove != nil) != (out.Stage == handshake.ImportMustRemove) {
		t.Error("an agent is deployed in stage NeedsAgent, removed in MustRemove, and left alone in any other")
	}
	if (out.CreateToken != nil || out.RenewToken) != (out.Stage == handshake.ImportNeedsToken) || out.CreateToken != nil && out.RenewToken {
		t.Error("a token is either made or renewed in stage NeedsToken, and neither in any other")
	}
	if (out.Kubeconfig != nil) != (out.CreateToken != nil) {
		t.Error("a cluster is asked whether it is there before a token is made for it, and only then")
	}
	if (out.Reason != "") != (out.Stage == handshake.ImportBlocked) || (out.Reason == "") != (out.Message == "") {
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

// everySetting is a spec that sets all there is to set.
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
	s.PrivateRepoURL, s.HostNetwork = "registry.example", ptr(true)
}

func TestImportTokenIsOwnedByItsCluster(t *testing.T) {
	got := pure(t, handshake.Import, importInput()).CreateToken
	want := &fleet.ClusterRegistrationToken{
		TypeMeta: metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: workspace, Name: "import-token-east",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "east", UID: "cluster-uid"}},
		},
		Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: 12 * time.Hour}},
	}
	expectEqual(t, "import token", got, want)
}

// After an import has been carried out there is nothing to do, however often one looks.
func TestImportComesToRest(t *testing.T) {
	tests := map[string]handshake.ImportInput{
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
			out := pure(t, handshake.Import, in)
			expectEqual(t, "first", out.Stage, handshake.ImportNeedsAgent)
			note(&in.Cluster.Status, out)
			expectEqual(t, "then", pure(t, handshake.Import, in).Stage, handshake.ImportInSync)
			in.Cluster.Status.Agent = fleet.AgentStatus{LastSeen: at(0), Namespace: out.Deploy.Values.Namespace}
			expectEqual(t, "after the first heartbeat", pure(t, handshake.Import, in).Stage, handshake.ImportInSync)
		})
	}
}
