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

// stage describes the progress of the hub's own cluster.
type stage string

const (
	// disabled means that the configuration names no namespace for it: nothing is created, and nothing is removed.
	disabled stage = "Disabled"
	// minting means that only a token for the kubeconfig is missing. It is requested now.
	minting stage = "Minting"
	// registered means that the set is complete.
	registered stage = "Registered"
)

// input describes the observed state of the hub itself. A nil object does not exist.
type input struct {
	now    time.Time
	config config.Bootstrap
	// server and ca are the address and CA with which this process connects to the API server.
	server string
	ca     []byte
	// account is the account whose token the kubeconfig contains. Without it, the kubeconfig contains the process's
	// own token, and without that, the process's own kubeconfig is used.
	account       *corev1.ServiceAccount
	ownToken      string
	ownKubeconfig []byte
	// held is the token in the existing kubeconfig, or empty. holder is the UID of its Secret. rejected means that the
	// API server does not accept the token.
	held     string
	holder   types.UID
	rejected bool
	// tolerations are those of the controllers' own pods.
	tolerations []corev1.Toleration
	// systemNamespace is the namespace of account.
	systemNamespace string
}

// outcome describes the desired state of the hub's own cluster.
type outcome struct {
	stage stage
	// mint, if set, requests a token. kubeconfigWith then builds the kubeconfig.
	mint *protocol.Mint
	// kubeconfig is complete, if no token has to be requested.
	kubeconfig []byte
	// holder is the UID of the Secret whose token the kubeconfig keeps, or empty. If that Secret is deleted, the token
	// must be replaced.
	holder types.UID
}

// decide determines the source of the kubeconfig's token. A token that still works is kept, so that a restart changes
// nothing.
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
	case works(in):
		kubeconfig, err := kubeconfigWith(in, in.held)
		return outcome{stage: registered, kubeconfig: kubeconfig, holder: in.holder}, err
	default:
		return outcome{stage: minting, mint: &protocol.Mint{
			Namespace: in.systemNamespace, Account: in.account.Name, Lifetime: protocol.TokenLifetime,
		}}, nil
	}
}

// works reports whether the existing token belongs to the account, has not expired and is not rejected.
func works(in input) bool {
	parsed, err := protocol.ParseAccountToken(in.held)
	return err == nil && !in.rejected && parsed.AccountUID == string(in.account.UID) && (parsed.Expires.IsZero() || parsed.Expires.After(in.now))
}

// children returns the set, in the order in which it is written. With a holder, the kubeconfig is written only to
// that Secret.
func children(in input, kubeconfig []byte, holder types.UID) []runtime.Object {
	namespace := in.config.Namespace
	clusterLabels := map[string]string{"name": names.LocalCluster}
	maps.Copy(clusterLabels, in.config.ClusterLabels) // these may replace the label name too
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
