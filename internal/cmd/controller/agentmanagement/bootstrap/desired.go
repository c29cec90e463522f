package bootstrap

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// stage says what the hub's own cluster is owed.
type stage string

const (
	// disabled means that the configuration names no namespace for it: nothing is made, and nothing is removed.
	disabled stage = "Disabled"
	// minting means that everything is known but a token for the kubeconfig, asked for now.
	minting stage = "Minting"
	// registered means that the set is complete.
	registered stage = "Registered"
)

// input is what was found about the hub itself. A nil object was not found.
type input struct {
	now    time.Time
	config config.Bootstrap
	// server and ca are how this process reaches the API server.
	server string
	ca     []byte
	// account is the one whose token the kubeconfig carries; without it, the process's own token does, and without
	// that its own kubeconfig.
	account       *corev1.ServiceAccount
	ownToken      string
	ownKubeconfig []byte
	// held is the token of the kubeconfig there is, empty if there is none; holder is the UID of its Secret.
	held   string
	holder types.UID
	// tolerations are those of the controllers' own pods.
	tolerations []corev1.Toleration
	// systemNamespace is where account is.
	systemNamespace string
}

// outcome is what the hub's own cluster is owed.
type outcome struct {
	stage stage
	// mint asks for a token; the kubeconfig is then made by kubeconfigWith.
	mint *protocol.Mint
	// kubeconfig is the whole of it, if no token has to be minted.
	kubeconfig []byte
	// holder is the UID of the Secret whose token the kubeconfig keeps, empty if it keeps none: who deletes that Secret
	// wants another token.
	holder types.UID
}

// decide says where the kubeconfig's token comes from. A token that can still work is kept, so that a restart
// changes nothing.
func decide(in input) (outcome, error) {
	if !in.config.Enabled() {
		return outcome{stage: disabled}, nil
	}
	switch {
	case in.account == nil && in.ownToken == "" && len(in.ownKubeconfig) > 0:
		return outcome{stage: registered, kubeconfig: in.ownKubeconfig}, nil
	case in.account == nil:
		kubeconfig, err := kubeconfigWith(in, in.ownToken)
		return outcome{stage: registered, kubeconfig: kubeconfig}, err
	case works(in.held, string(in.account.UID), in.now):
		kubeconfig, err := kubeconfigWith(in, in.held)
		return outcome{stage: registered, kubeconfig: kubeconfig, holder: in.holder}, err
	default:
		return outcome{stage: minting, mint: &protocol.Mint{
			Namespace: in.systemNamespace, Account: in.account.Name, Lifetime: protocol.TokenLifetime,
		}}, nil
	}
}

// works says whether a token is one of the account's and not over.
func works(token, accountUID string, now time.Time) bool {
	parsed, err := protocol.ParseAccountToken(token)
	return err == nil && parsed.AccountUID == accountUID && (parsed.Expires.IsZero() || parsed.Expires.After(now))
}

// children are the set, in the order in which they are written. With a holder, the kubeconfig is for that Secret only.
func children(in input, kubeconfig []byte, holder types.UID) []runtime.Object {
	namespace := in.config.Namespace
	clusterLabels := map[string]string{"name": names.LocalCluster}
	maps.Copy(clusterLabels, in.config.ClusterLabels) // these may change the name too
	return []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: names.LocalKubeconfig, UID: holder, Labels: map[string]string{fleet.LabelManaged: "true"},
			},
			Data: map[string][]byte{
				protocol.KubeconfigValueKey: kubeconfig,
				protocol.APIServerURLKey:    []byte(in.server),
				protocol.APIServerCAKey:     in.ca,
			},
		},
		&fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.LocalCluster, Labels: clusterLabels},
			Spec: fleet.ClusterSpec{
				KubeConfigSecret: names.LocalKubeconfig,
				AgentNamespace:   in.config.AgentNamespace,
				AgentTolerations: in.tolerations,
			},
		},
		&fleet.ClusterGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.DefaultGroup},
			Spec: fleet.ClusterGroupSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": names.LocalCluster}},
			},
		},
	}
}
