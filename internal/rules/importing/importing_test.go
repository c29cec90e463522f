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
		"no kubeconfig: not imported":            {importInput(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), importing.None},
		"Cluster is being deleted: not imported": {importInput(cluster(rulestest.ClusterGoing)), importing.None},
		"Cluster of another manager: not imported": {importInput(cluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: "rancher"}
		})), importing.None},
		"empty label of the manager: imported": {importInput(cluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: ""}
		})), importing.NeedsToken},

		// Client IDs.
		"no kubeconfig and no client ID: blocked":                       {importInput(cluster(rulestest.ClusterClient("")), spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), importing.Blocked},
		"client ID of an older Cluster: blocked":                        {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2 * time.Hour)))), importing.Blocked},
		"client ID of an older Cluster, no kubeconfig: blocked":         {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour))), spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), importing.Blocked},
		"client ID of an older Cluster, imported before: blocked":       {carriedOut(namesake(rulestest.ClusterMadeAt(rulestest.At(-2 * time.Hour)))), importing.Blocked},
		"same client ID and age: the first by name is imported":         {importInput(namesake(rulestest.ClusterNamed("aaa"))), importing.Blocked},
		"same client ID in three Clusters: the oldest is named":         {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour))), namesake(rulestest.ClusterNamed("oldest"), rulestest.ClusterUID("third"), rulestest.ClusterMadeAt(rulestest.At(-3*time.Hour)))), importing.Blocked},
		"client ID of a newer Cluster: imported":                        {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-time.Minute)))), importing.NeedsToken},
		"client ID of an older Cluster that is being deleted: imported": {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour)), rulestest.ClusterGoing)), importing.NeedsToken},
		"older Cluster has another client ID by now: imported":          {importInput(namesake(rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour)), rulestest.ClusterClient("c2"))), importing.NeedsToken},
		"client ID is found in the Cluster itself: imported":            {importInput(func(in *importing.Input) { in.Namesakes = []*fleet.Cluster{in.Cluster.DeepCopy()} }), importing.NeedsToken},
		"two Clusters without a client ID: each gets one":               {importInput(cluster(rulestest.ClusterClient("")), namesake(rulestest.ClusterClient(""), rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour)))), importing.NeedsClientID},

		// The client ID and the token.
		"no client ID: gets one":                          {importInput(cluster(rulestest.ClusterClient(""))), importing.NeedsClientID},
		"no token: gets one":                              {importInput(), importing.NeedsToken},
		"token without values: waits":                     {importInput(withToken, func(in *importing.Input) { in.Values = nil }), importing.AwaitingToken},
		"token without a Secret name: waits":              {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.Status.SecretName = "" })), importing.AwaitingToken},
		"token is being deleted: waits":                   {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) })), importing.AwaitingToken},
		"values Secret of another type: waits":            {importInput(withToken, func(in *importing.Input) { in.Values.Type = corev1.SecretTypeOpaque }), importing.AwaitingToken},
		"token with a problem: reported":                  {importInput(withToken, tokenTrouble(conditions.ReasonSecretNameTaken), func(in *importing.Input) { in.Values = nil }), importing.Blocked},
		"token that waits for its rights: waits":          {importInput(withToken, tokenTrouble(conditions.ReasonAwaitingRights), func(in *importing.Input) { in.Values = nil }), importing.AwaitingToken},
		"values without a bearer token: waits":            {importInput(withToken, func(in *importing.Input) { in.Values = rulestest.ValuesSecret("") }), importing.AwaitingToken},
		"token expires too soon: renewed":                 {importInput(withToken, importTokenUntil(importing.TokenReserve-time.Second)), importing.NeedsToken},
		"token expires late enough: used":                 {importInput(withToken, importTokenUntil(importing.TokenReserve)), importing.NeedsAgent},
		"token without an expiry: used":                   {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.Status.Expires = nil })), importing.NeedsAgent},
		"token of a user: used":                           {importInput(withToken, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences = nil })), importing.NeedsAgent},
		"token of a former Cluster of the name: replaced": {importInput(withToken, cluster(rulestest.ClusterUID("another-uid"))), importing.NeedsToken},

		// The first import.
		"first import: agent is deployed":                       {importInput(withToken), importing.NeedsAgent},
		"first import into another agent namespace":             {importInput(withToken, spec(func(s *fleet.ClusterSpec) { s.AgentNamespace = "agents" })), importing.NeedsAgent},
		"first import with URL and CA of the kubeconfig Secret": {importInput(withToken, withSecret("apiServerURL", "https://other.example"), withSecret("apiServerCA", rulestest.OtherCA)), importing.NeedsAgent},
		"first import with the URL of the kubeconfig Secret":    {importInput(withToken, withSecret("apiServerURL", "https://other.example")), importing.NeedsAgent},
		"first import without a CA, mode system-store":          {importInput(withToken, conf(func(c *config.Config) { c.APIServerCA = nil })), importing.NeedsAgent},
		"first import failed halfway: complete import":          {importInput(withToken, status(func(s *fleet.ClusterStatus) { s.APIServerURL, s.AgentMigrated = rulestest.HubURL, true })), importing.NeedsAgent},
		"first import with every setting":                       {importInput(withToken, spec(everySetting)), importing.NeedsAgent},

		// Obstacles.
		"kubeconfig of a refused namespace":                        {importInput(spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "kube-system" })), importing.Blocked},
		"missing kubeconfig Secret":                                {importInput(withoutSecret), importing.Blocked},
		"missing kubeconfig Secret in another namespace":           {importInput(withoutSecret, spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecretNamespace = "fleet-local" })), importing.Blocked},
		"kubeconfig Secret without the key":                        {importInput(withSecret("value", "")), importing.Blocked},
		"hub without a URL":                                        {importInput(conf(func(c *config.Config) { c.APIServerURL = "" })), importing.Blocked},
		"no TLS mode":                                              {importInput(conf(func(c *config.Config) { c.AgentTLSMode = "" })), importing.Blocked},
		"an unknown TLS mode":                                      {importInput(conf(func(c *config.Config) { c.AgentTLSMode = "lax" })), importing.Blocked},
		"mode strict without a CA":                                 {importInput(conf(func(c *config.Config) { c.AgentTLSMode, c.APIServerCA = config.TLSModeStrict, nil })), importing.Blocked},
		"mode strict with the CA of the Secret: no obstacle":       {importInput(withSecret("apiServerCA", rulestest.OtherCA), conf(func(c *config.Config) { c.AgentTLSMode, c.APIServerCA = config.TLSModeStrict, nil })), importing.NeedsToken},
		"CA of the hub that is not PEM":                            {importInput(conf(func(c *config.Config) { c.APIServerCA = []byte("bm90IHBlbQ==") })), importing.Blocked},
		"CA in the Secret that is not PEM, after the first import": {carriedOut(withSecret("apiServerCA", "bm90IHBlbQ==")), importing.Blocked},
		"hub without a URL, URL in the Secret: no obstacle":        {importInput(withSecret("apiServerURL", "https://x.example"), conf(func(c *config.Config) { c.APIServerURL = "" })), importing.NeedsToken},
		"unknown TLS mode after the first import":                  {carriedOut(conf(func(c *config.Config) { c.AgentTLSMode = "lax" })), importing.Blocked},
		"two obstacles: the first is reported":                     {importInput(withoutSecret, conf(func(c *config.Config) { c.APIServerURL = "" })), importing.Blocked},
		"missing kubeconfig Secret, agent is in sync: no obstacle": {carriedOut(withoutSecret), importing.InSync},
		"no token, agent is in sync: no token is created":          {carriedOut(func(in *importing.Input) { in.Token, in.Values = nil, nil }), importing.InSync},
		"inherited agent in sync: unchanged":                       {carriedOut(inherited), importing.InSync},
		"inherited agent with another setting: reported":           {carriedOut(inherited, spec(everySetting)), importing.Blocked},
		"inherited agent with another generation: reported":        {carriedOut(inherited, spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration++ })), importing.Blocked},
		"inherited agent with another hub URL: reported":           {carriedOut(inherited, conf(func(c *config.Config) { c.APIServerURL = "https://new.example" })), importing.Blocked},
		"no token, another setting: no token is created":           {carriedOut(func(in *importing.Input) { in.Token, in.Values = nil, nil }, spec(everySetting)), importing.NeedsAgent},
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

func TestImportToken_IsOwnedByItsCluster(t *testing.T) {
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
		"with another generation":  carriedOut(spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration = -1 })),
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
