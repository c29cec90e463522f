package importing_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestKubeconfigOfAnotherNamespace_NeedsConsent(t *testing.T) {
	legacy := conf(func(c *config.Config) { c.LegacyKubeconfigNamespaces = true })
	allows := func(workspaces string) importChange {
		return func(in *importing.Input) {
			in.Kubeconfig.Annotations = map[string]string{annotation.AllowedWorkspaces: workspaces}
		}
	}
	const refused, missing = conditions.ReasonKubeconfigNamespaceRefused, conditions.ReasonKubeconfigMissing
	tests := map[string]struct {
		workspace, named string
		change           importChange
		reason           string
	}{
		"no namespace: the Cluster's own":        {"fleet-default", "", nil, ""},
		"the Cluster's own":                      {"team-a", "team-a", nil, ""},
		"the Cluster's own, a system namespace":  {"cattle-system", "cattle-system", nil, ""},
		"the Cluster's own has no Secret":        {"team-a", "", withoutSecret, missing},
		"the hub's own kubeconfig":               {"team-a", "fleet-local", nil, refused},
		"the common workspace":                   {"team-a", "fleet-default", nil, refused},
		"the system namespace":                   {"team-a", "cattle-fleet-system", nil, refused},
		"the registration namespace":             {"team-a", "cattle-fleet-clusters-system", nil, refused},
		"a cluster namespace":                    {"team-a", "cluster-fleet-default-east-0f0350029557", nil, refused},
		"kube-system":                            {"team-a", "kube-system", nil, refused},
		"the Secret allows the workspace":        {"team-a", "team-b", allows("team-a"), ""},
		"the Secret allows several":              {"team-a", "kube-system", allows("team-c, team-a"), ""},
		"the Secret allows all":                  {"team-a", "team-b", allows("*"), ""},
		"the Secret allows another":              {"team-a", "team-b", allows("team-c"), refused},
		"the Secret allows a longer name":        {"team-a", "team-b", allows("team-a-2"), refused},
		"the Secret allows none":                 {"team-a", "team-b", allows(""), refused},
		"there is no Secret to allow it":         {"team-a", "team-b", withoutSecret, refused},
		"invalid namespace name":                 {"team-a", "b; rm -rf /", nil, missing},
		"legacy, the common workspace":           {"team-a", "fleet-default", legacy, ""},
		"legacy, the local workspace":            {"team-a", "fleet-local", legacy, ""},
		"legacy, the system namespace":           {"team-a", "cattle-fleet-system", legacy, ""},
		"legacy, the old system namespace":       {"team-a", "fleet-system", legacy, ""},
		"legacy, registration namespace":         {"team-a", "cattle-fleet-clusters-system", legacy, ""},
		"legacy, old registration namespace":     {"team-a", "fleet-clusters-system", legacy, ""},
		"legacy, a cluster namespace":            {"team-a", "cluster-x", legacy, ""},
		"legacy, kube-system":                    {"team-a", "kube-system", legacy, refused},
		"legacy, cattle-system":                  {"team-a", "cattle-system", legacy, refused},
		"legacy, another workspace":              {"team-a", "team-b", legacy, refused},
		"legacy, prefix of a cluster namespace":  {"team-a", "clusterroles", legacy, refused},
		"legacy, prefix of the common workspace": {"team-a", "fleet-default-2", legacy, refused},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := importInput(cluster(func(c *fleet.Cluster) { c.Namespace, c.Spec.KubeConfigSecretNamespace = test.workspace, test.named }))
			if test.change != nil {
				test.change(&in)
			}
			out := rulestest.Pure(t, importing.Decide, in)
			rulestest.ExpectEqual(t, "reason", out.Reason, test.reason)
			if (out.Deploy != nil || out.CreateToken != nil) && test.reason != "" {
				t.Error("the kubeconfig is used")
			}
			if strings.Contains(out.Message, "rm -rf") {
				t.Errorf("the message repeats what no name can be: %q", out.Message)
			}
			where := test.named
			if where == "" {
				where = test.workspace
			}
			rulestest.ExpectEqual(t, "key", clusters.KubeconfigSecret(in.Cluster).String(), where+"/east-kubeconfig")
		})
	}
	rulestest.ExpectEqual(t, "key of a Cluster that names none", clusters.KubeconfigSecret(rulestest.ACluster()), types.NamespacedName{})
}

// A deployed agent keeps running. The refusal is reported before its settings change.
func TestWithdrawnKubeconfigConsent_BlocksTheImport(t *testing.T) {
	in := carriedOut()
	in.Cluster.Spec.KubeConfigSecretNamespace = "team-b"
	out := rulestest.Pure(t, importing.Decide, in)
	rulestest.ExpectEqual(t, "reason", out.Reason, conditions.ReasonKubeconfigNamespaceRefused)
	if want := "kubectl annotate secret -n team-b east-kubeconfig fleet.cattle.io/allowed-workspaces=" + rulestest.Workspace; !strings.Contains(out.Message, want) {
		t.Errorf("%q does not say %q", out.Message, want)
	}
}
