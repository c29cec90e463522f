package handshake_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

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
