package importing_test

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

type importChange = func(*importing.Input)

// importInput returns Cluster east with its kubeconfig, before the first import.
func importInput(changes ...importChange) importing.Input {
	return *rulestest.Build(&importing.Input{
		Now: rulestest.Noon(),
		Cluster: rulestest.ACluster(func(c *fleet.Cluster) {
			c.Spec.KubeConfigSecret, c.Labels = "east-kubeconfig", map[string]string{"env": "dev"}
		}),
		Kubeconfig: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: rulestest.Workspace, Name: "east-kubeconfig"},
			Data:       map[string][]byte{"value": []byte("kubeconfig of east")},
		},
		Config: rulestest.HubConfig(), Defaults: rulestest.HubDefaults(), Namespaces: rulestest.HubNamespaces(),
	}, changes)
}

// carriedOut returns the input after an import, with later changes.
func carriedOut(changes ...importChange) importing.Input {
	in := importInput(withToken)
	rulestest.Note(&in.Cluster.Status, importing.Decide(in))
	return *rulestest.Build(&in, changes)
}

func cluster(modifiers ...func(*fleet.Cluster)) importChange {
	return func(in *importing.Input) { rulestest.Build(in.Cluster, modifiers) }
}

func spec(change func(*fleet.ClusterSpec)) importChange {
	return func(in *importing.Input) { change(&in.Cluster.Spec) }
}

func status(change func(*fleet.ClusterStatus)) importChange {
	return func(in *importing.Input) { change(&in.Cluster.Status) }
}

func conf(change func(*config.Config)) importChange {
	return func(in *importing.Input) { change(&in.Config) }
}

// seenIn sets the namespace of the agent's last heartbeat.
func seenIn(namespace string) importChange {
	return status(func(s *fleet.ClusterStatus) {
		s.Agent = fleet.AgentStatus{LastSeen: rulestest.At(-time.Minute), Namespace: namespace}
	})
}

// withSecret sets a key of the kubeconfig Secret. An empty value removes it.
func withSecret(key, value string) importChange {
	return func(in *importing.Input) {
		in.Kubeconfig.Data[key] = []byte(value)
		if value == "" {
			delete(in.Kubeconfig.Data, key)
		}
	}
}

func withoutSecret(in *importing.Input) { in.Kubeconfig = nil }

// withToken makes the import token ready, twelve hours before it expires.
func withToken(in *importing.Input) {
	importTokenUntil(importing.TokenTTL)(in)
	in.Values = rulestest.ValuesSecret("import-jwt")
	in.Values.Name = in.Token.Name
}

func importTokenUntil(end time.Duration) importChange {
	return func(in *importing.Input) {
		expires := rulestest.At(end)
		in.Token = rulestest.AToken(func(t *fleet.ClusterRegistrationToken) {
			t.Name, t.UID = "import-token-east", "i1"
			t.OwnerReferences = []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "east", UID: "cluster-uid"}}
			t.Status = fleet.ClusterRegistrationTokenStatus{SecretName: "import-token-east", Expires: &expires}
		})
	}
}

func tokenChange(change func(*fleet.ClusterRegistrationToken)) importChange {
	return func(in *importing.Input) { change(in.Token) }
}

// isLocal makes the Cluster the hub's own.
func isLocal(in *importing.Input) {
	in.Cluster.Namespace, in.Cluster.Name = "fleet-local", "local"
	in.Config.Bootstrap.Namespace = "fleet-local"
}

func localAgentDisabled(in *importing.Input) { in.Config.Bootstrap.LocalAgentDisabled = true }

// namesake adds another Cluster with the same client ID.
func namesake(modifiers ...func(*fleet.Cluster)) importChange {
	return func(in *importing.Input) {
		in.Namesakes = append(in.Namesakes, rulestest.ACluster(append([]func(*fleet.Cluster){rulestest.ClusterNamed("namesake"), rulestest.ClusterUID("namesake-uid")}, modifiers...)...))
	}
}

// tokenTrouble sets the condition of the import token.
func tokenTrouble(reason string) importChange {
	return tokenChange(func(t *fleet.ClusterRegistrationToken) {
		t.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Ready, Status: corev1.ConditionFalse, Reason: reason}}
	})
}
