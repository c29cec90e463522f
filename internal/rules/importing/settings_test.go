package importing_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// settings returns the values of a Cluster's agent.
func settings(t *testing.T, in importing.Input) importing.AgentValues {
	t.Helper()
	return rulestest.Pure(t, func(in importing.Input) importing.AgentValues {
		return importing.AgentSettings(in.Cluster, in.Config, in.Defaults, in.Namespaces)
	}, in)
}

func TestAgentImage(t *testing.T) {
	tests := map[string]struct{ image, registry, private, want string }{
		"no private registry: image as configured":           {"rancher/fleet-agent:dev", "", "", "rancher/fleet-agent:dev"},
		"no private registry, image with a default registry": {"mirror.example/rancher/fleet:dev", "mirror.example", "", "mirror.example/rancher/fleet:dev"},
		"private registry is prepended":                      {"rancher/fleet-agent:dev", "", "local.example", "local.example/rancher/fleet-agent:dev"},
		"private registry replaces the default one":          {"mirror.example/rancher/fleet:dev", "mirror.example/", "local.example", "local.example/rancher/fleet:dev"},
		"private registry with a slash at the end":           {"mirror.example/rancher/fleet:dev", "mirror.example", "local.example/", "local.example/rancher/fleet:dev"},
		"image is in the private registry already":           {"local.example/rancher/fleet:dev", "", "local.example", "local.example/rancher/fleet:dev"},
		"default registry that the image does not have":      {"rancher/fleet:dev", "mirror.example", "local.example", "local.example/rancher/fleet:dev"},
		"private registry with port and path":                {"rancher/fleet:dev", "", "local.example:5000/mirror", "local.example:5000/mirror/rancher/fleet:dev"},
		"digest is kept":                                     {"rancher/fleet@sha256:abc", "", "local.example", "local.example/rancher/fleet@sha256:abc"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := importInput(spec(func(s *fleet.ClusterSpec) { s.PrivateRepoURL = test.private }), conf(func(c *config.Config) {
				c.AgentImage, c.SystemDefaultRegistry = test.image, test.registry
			}))
			rulestest.ExpectEqual(t, "image", settings(t, in).Image, test.want)
		})
	}
}

func TestAgentEnvironment(t *testing.T) {
	variable := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	tests := map[string][]corev1.EnvVar{
		"none":                           nil,
		"variables of the Cluster":       {variable("B", "2")},
		"order of the variables is kept": {variable("B", "2"), variable("A", "$(B)")},
	}
	for name, own := range tests {
		t.Run(name, func(t *testing.T) {
			in := importInput(spec(func(s *fleet.ClusterSpec) { s.AgentEnvVars = own }))
			rulestest.ExpectEqual(t, "environment", settings(t, in).Env, own)
		})
	}
}

func TestAgentSettings(t *testing.T) {
	tests := map[string]importChange{
		"a Cluster without settings":  func(*importing.Input) {},
		"a Cluster with all settings": spec(everySetting),
		"another agent namespace":     spec(func(s *fleet.ClusterSpec) { s.AgentNamespace = "agents" }),
		"another system namespace": func(in *importing.Input) {
			in.Namespaces = clusters.Namespaces{System: "hub-system", Registration: "hub-clusters-system"}
		},
		"pull secrets of the hub for all agents": conf(func(c *config.Config) { c.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "hub"}} }),
		"pull secrets of the Cluster instead": func(in *importing.Input) {
			in.Config.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "hub"}}
			in.Cluster.Spec.AgentPullSecrets = &[]corev1.LocalObjectReference{{Name: "mine"}}
		},
		"no pull secrets for the Cluster": func(in *importing.Input) {
			in.Config.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "hub"}}
			in.Cluster.Spec.AgentPullSecrets = &[]corev1.LocalObjectReference{}
		},
		"no interval for the heartbeat": conf(func(c *config.Config) { c.AgentCheckinInterval.Duration = 0 }),
		"an empty scheduling customization": spec(func(s *fleet.ClusterSpec) {
			s.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{}
		}),
		"the hub's own settings": func(in *importing.Input) {
			in.Defaults = importing.AgentDefaults{
				Replicas: 2, LeaseDuration: "60s", RetryPeriod: "20s", RenewDeadline: "50s", Debug: true, DebugLevel: 5, DisableSecurityContext: true,
				ErrorMapping: "[]",
			}
		},
		"variables of the hub and of the Cluster": func(in *importing.Input) {
			in.Defaults.ErrorMapping = "[]"
			in.Cluster.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "b"}}
		},
		"a variable of the Cluster instead of the hub's": func(in *importing.Input) {
			in.Defaults.ErrorMapping = "[]"
			in.Cluster.Spec.AgentEnvVars = []corev1.EnvVar{{Name: names.ErrorMappingVariable, Value: "[{}]"}}
		},
	}
	golden := rulestest.GoldenOf(t, "settings")
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			golden.Expect(t, name, rulestest.YAML(t, settings(t, importInput(change))))
		})
	}
}

// The agent's Bundle renders AgentSettings. An import renders its outcome. Only the identity may differ.
func TestImportAndBundle_DeployTheSameAgent(t *testing.T) {
	in := importInput(withToken, spec(everySetting))
	imported := importing.Decide(in).Deploy.Values
	imported.Bootstrap, imported.Config = nil, nil
	rulestest.ExpectEqual(t, "values", imported, settings(t, in))
}

func TestRegistrationLabels(t *testing.T) {
	tests := map[string]struct{ labels, want map[string]string }{
		"none":                                      {},
		"only labels of managers":                   {labels: map[string]string{"fleet.cattle.io/cluster": "east"}},
		"labels of users are copied":                {labels: map[string]string{"env": "dev", "example.com/zone": "a"}, want: map[string]string{"env": "dev", "example.com/zone": "a"}},
		"labels of kubectl are not copied":          {labels: map[string]string{"kubectl.kubernetes.io/x": "1", "env": "dev"}, want: map[string]string{"env": "dev"}},
		"labels of managers are not copied":         {labels: map[string]string{"management.cattle.io/x": "1", "fleet.cattle.io/y": "2", "objectset.rio.cattle.io/hash": "3", "env": "dev"}, want: map[string]string{"env": "dev"}},
		"cattle.io within a label's name is copied": {labels: map[string]string{"cattle.io": "1", "env": "cattle.io/x"}, want: map[string]string{"cattle.io": "1", "env": "cattle.io/x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "labels", rulestest.Pure(t, importing.RegistrationLabels, test.labels), test.want)
		})
	}
}

// The hashes cover the same bytes as those of Rancher Fleet. Some of the vectors come from recorded Clusters.
func TestSettingsHashes_MatchRancherFleet(t *testing.T) {
	tests := map[string]struct {
		change importChange
		hash   func(importing.Status) string
		want   string
	}{
		"the CA": {
			conf(func(c *config.Config) { c.APIServerCA = []byte(rulestest.OtherCA) }),
			func(s importing.Status) string { return s.APIServerCAHash },
			hashOf(t, []byte(rulestest.OtherCA)),
		},
		"the CA from the kubeconfig Secret": {
			withSecret("apiServerCA", rulestest.OtherCA), func(s importing.Status) string { return s.APIServerCAHash },
			hashOf(t, []byte(rulestest.OtherCA)),
		},
		"no CA has a hash": {
			conf(func(c *config.Config) { c.APIServerCA = nil }), func(s importing.Status) string { return s.APIServerCAHash },
			hashOf(t, []byte(nil)),
		},
		"the local cluster's toleration": {
			spec(func(s *fleet.ClusterSpec) {
				s.AgentTolerations = []corev1.Toleration{{Key: "cattle.io/os", Operator: corev1.TolerationOpEqual, Value: "linux", Effect: corev1.TaintEffectNoSchedule}}
			}),
			func(s importing.Status) string { return s.AgentTolerationsHash },
			"991c1df7de33363cd13b3324a8b62a8ac9b8bd399fca4a5678100c44",
		},
		"no tolerations": {spec(func(s *fleet.ClusterSpec) { s.AgentTolerations = []corev1.Toleration{} }), func(s importing.Status) string { return s.AgentTolerationsHash }, ""},
		"an affinity":    {spec(everySetting), func(s importing.Status) string { return s.AgentAffinityHash }, hashOf(t, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}})},
		"an empty affinity": {
			spec(func(s *fleet.ClusterSpec) { s.AgentAffinity = &corev1.Affinity{} }),
			func(s importing.Status) string { return s.AgentAffinityHash }, hashOf(t, map[string]any{}),
		},
		"no affinity":              {func(*importing.Input) {}, func(s importing.Status) string { return s.AgentAffinityHash }, ""},
		"environment variables":    {spec(everySetting), func(s importing.Status) string { return s.AgentEnvVarsHash }, hashOf(t, []map[string]string{{"name": "HTTPS_PROXY", "value": "http://proxy"}})},
		"no environment variables": {spec(func(s *fleet.ClusterSpec) { s.AgentEnvVars = []corev1.EnvVar{} }), func(s importing.Status) string { return s.AgentEnvVarsHash }, ""},
		"resources":                {spec(everySetting), func(s importing.Status) string { return s.AgentResourcesHash }, hashOf(t, map[string]any{"limits": map[string]string{"memory": "1Gi"}})},
		"no resources":             {func(*importing.Input) {}, func(s importing.Status) string { return s.AgentResourcesHash }, ""},
		"scheduling": {
			spec(func(s *fleet.ClusterSpec) {
				s.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MinAvailable: "1"}}
			}),
			func(s importing.Status) string { return s.AgentSchedulingCustomizationHash },
			hashOf(t, map[string]any{"podDisruptionBudget": map[string]string{"minAvailable": "1"}}),
		},
		"no scheduling": {func(*importing.Input) {}, func(s importing.Status) string { return s.AgentSchedulingCustomizationHash }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			done := rulestest.Pure(t, importing.Decide, importInput(withToken, test.change)).Done
			rulestest.ExpectEqual(t, "hash", test.hash(done), test.want)
		})
	}
}

func hashOf(t *testing.T, v any) string {
	t.Helper()
	hash, err := names.StatusHash(v)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestSchedulingInBundle_UntilAnImportHasAppliedIt(t *testing.T) {
	scheduled := func(c *fleet.Cluster) { c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{} }
	kubeconfig := func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "k" }
	noted := func(c *fleet.Cluster) { c.Status.AgentSchedulingCustomizationHash = "hash" }
	deployed := func(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = new(int64) }
	tests := map[string]struct {
		changes []func(*fleet.Cluster)
		want    bool
	}{
		"no kubeconfig":                            {[]func(*fleet.Cluster){scheduled}, true},
		"no kubeconfig, status written":            {[]func(*fleet.Cluster){scheduled, noted}, true},
		"nothing to schedule":                      {nil, false},
		"kubeconfig added, not imported yet":       {[]func(*fleet.Cluster){scheduled, noted, kubeconfig}, true},
		"kubeconfig added, imported":               {[]func(*fleet.Cluster){scheduled, noted, kubeconfig, deployed}, false},
		"kubeconfig from the start, not imported":  {[]func(*fleet.Cluster){scheduled, kubeconfig}, false},
		"kubeconfig from the start, then imported": {[]func(*fleet.Cluster){scheduled, kubeconfig, deployed}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := importing.AgentSettings(rulestest.ACluster(test.changes...), config.Config{}, importing.AgentDefaults{}, clusters.Namespaces{})
			if got.SchedulingInBundle != test.want {
				t.Errorf("in the Bundle: %t", got.SchedulingInBundle)
			}
		})
	}
}
