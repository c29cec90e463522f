package importing_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestNewAgent_HasTheSettingsOfAnImport(t *testing.T) {
	hostNetwork := true
	in := importInput(withToken, spec(func(s *fleet.ClusterSpec) {
		s.HostNetwork, s.AgentTolerations = &hostNetwork, []corev1.Toleration{{Key: "k"}}
	}), conf(func(c *config.Config) { c.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} }),
		func(in *importing.Input) { in.PullSecrets = map[string]string{"pull": "1"} })
	imported := importing.Decide(in).Deploy
	bootstrap, ok := importing.Bootstrap(in.Token, in.Values, importing.HubAddress{URL: in.Config.APIServerURL, CA: in.Config.APIServerCA}, in.Namespaces)
	if !ok {
		t.Fatal("the token has no values")
	}
	got := importing.NewAgent(in.Cluster, in.Config, in.Defaults, in.Namespaces, bootstrap)
	rulestest.ExpectEqual(t, "values", got.Values, imported.Values)
	rulestest.ExpectEqual(t, "set", got.SetID, imported.SetID)
	rulestest.ExpectEqual(t, "pull Secrets", got.PullSecrets, imported.PullSecrets)
}

func TestAgentObstacle(t *testing.T) {
	pull := func(c *config.Config) { c.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} }
	tests := map[string]struct {
		change  func(*config.Config)
		secrets map[string]string
		want    string
	}{
		"none":                  {change: func(*config.Config) {}},
		"no URL":                {change: func(c *config.Config) { c.APIServerURL = "" }, want: conditions.ReasonHubURLMissing},
		"a URL without TLS":     {change: func(c *config.Config) { c.APIServerURL = "http://hub" }, want: conditions.ReasonHubURLInvalid},
		"an unknown TLS mode":   {change: func(c *config.Config) { c.AgentTLSMode = "loose" }, want: conditions.ReasonTLSModeUnknown},
		"strict without a CA":   {change: func(c *config.Config) { c.AgentTLSMode, c.APIServerCA = config.TLSModeStrict, nil }, want: conditions.ReasonHubCAMissing},
		"a CA that is not PEM":  {change: func(c *config.Config) { c.APIServerCA = []byte("bm90IHBlbQ==") }, want: conditions.ReasonHubCAInvalid},
		"a pull Secret":         {change: pull, secrets: map[string]string{"pull": "1"}},
		"a missing pull Secret": {change: pull, want: conditions.ReasonPullSecretMissing},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := importInput(conf(test.change))
			reason, message := importing.AgentObstacle(in.Cluster, in.Config, test.secrets, in.Namespaces)
			rulestest.ExpectEqual(t, "reason", reason, test.want)
			if (message == "") != (reason == "") {
				t.Errorf("message %q", message)
			}
		})
	}
}
