package handshake_test

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

type importChange = func(*handshake.ImportInput)

// importInput is Cluster east with its kubeconfig, of which nothing was imported yet.
func importInput(changes ...importChange) handshake.ImportInput {
	return *build(&handshake.ImportInput{
		Now: noon(),
		Cluster: aCluster(func(c *fleet.Cluster) {
			c.Spec.KubeConfigSecret, c.Labels = "east-kubeconfig", map[string]string{"env": "dev"}
		}),
		Kubeconfig: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "east-kubeconfig"},
			Data:       map[string][]byte{"value": []byte("kubeconfig of east")},
		},
		Config: hubConfig(), Defaults: hubDefaults(), Namespaces: hubNamespaces(),
	}, changes)
}

// carriedOut is the same after an import was carried out, with whatever changed since.
func carriedOut(changes ...importChange) handshake.ImportInput {
	in := importInput(withToken)
	note(&in.Cluster.Status, handshake.Import(in))
	return *build(&in, changes)
}

func cluster(modifiers ...func(*fleet.Cluster)) importChange {
	return func(in *handshake.ImportInput) { build(in.Cluster, modifiers) }
}

func spec(change func(*fleet.ClusterSpec)) importChange {
	return func(in *handshake.ImportInput) { change(&in.Cluster.Spec) }
}

func status(change func(*fleet.ClusterStatus)) importChange {
	return func(in *handshake.ImportInput) { change(&in.Cluster.Status) }
}

func conf(change func(*config.Config)) importChange {
	return func(in *handshake.ImportInput) { change(&in.Config) }
}

// seenIn is the agent's heartbeat from a namespace.
func seenIn(namespace string) importChange {
	return status(func(s *fleet.ClusterStatus) {
		s.Agent = fleet.AgentStatus{LastSeen: at(-time.Minute), Namespace: namespace}
	})
}

// withSecret sets a key of the kubeconfig Secret; an empty value removes it.
func withSecret(key, value string) importChange {
	return func(in *handshake.ImportInput) {
		in.Kubeconfig.Data[key] = []byte(value)
		if value == "" {
			delete(in.Kubeconfig.Data, key)
		}
	}
}

func withoutSecret(in *handshake.ImportInput) { in.Kubeconfig = nil }

// withToken means that the import token is ready, twelve hours before its end.
func withToken(in *handshake.ImportInput) {
	importTokenUntil(handshake.ImportTokenTTL)(in)
	in.Values = valuesSecret("import-jwt")
	in.Values.Name = in.Token.Name
}

func importTokenUntil(end time.Duration) importChange {
	return func(in *handshake.ImportInput) {
		expires := at(end)
		in.Token = aToken(func(t *fleet.ClusterRegistrationToken) {
			t.Name, t.UID = "import-token-east", "i1"
			t.OwnerReferences = []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "east", UID: "cluster-uid"}}
			t.Status = fleet.ClusterRegistrationTokenStatus{SecretName: "import-token-east", Expires: &expires}
		})
	}
}

func tokenChange(change func(*fleet.ClusterRegistrationToken)) importChange {
	return func(in *handshake.ImportInput) { change(in.Token) }
}

// isLocal makes the Cluster the hub's own.
func isLocal(in *handshake.ImportInput) {
	in.Cluster.Namespace, in.Cluster.Name = "fleet-local", "local"
	in.Config.Bootstrap.Namespace = "fleet-local"
}

func localAgentDisabled(in *handshake.ImportInput) { in.Config.Bootstrap.LocalAgentDisabled = true }

// namesake is another Cluster that was found for the client ID.
func namesake(modifiers ...func(*fleet.Cluster)) importChange {
	return func(in *handshake.ImportInput) {
		in.Namesakes = append(in.Namesakes, aCluster(append([]func(*fleet.Cluster){clusterNamed("namesake"), clusterUID("namesake-uid")}, modifiers...)...))
	}
}

// tokenTrouble is what the import token says of itself.
func tokenTrouble(reason string) importChange {
	return tokenChange(func(t *fleet.ClusterRegistrationToken) {
		t.Status.Conditions = []genericcondition.GenericCondition{{Type: fleet.ConditionReady, Status: corev1.ConditionFalse, Reason: reason}}
	})
}
