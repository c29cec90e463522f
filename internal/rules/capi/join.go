package capi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Join is how a Cluster of Cluster API asks to be joined.
type Join string

const (
	// JoinByKubeconfig means that the hub imports the cluster with its kubeconfig.
	JoinByKubeconfig Join = ""
	// JoinByManifest means that the bootstrap provider of the cluster installs the agent with a manifest from the hub.
	JoinByManifest Join = "manifest"
	// JoinUnknown means that the annotation has an unknown value.
	JoinUnknown Join = "unknown"
)

// joinWithAgent is the only value of the annotation.
const joinWithAgent = "agent"

func joinOf(annotations map[string]string) Join {
	switch value, is := annotations[annotation.CAPIJoin]; {
	case !is:
		return JoinByKubeconfig
	case value == joinWithAgent:
		return JoinByManifest
	}
	return JoinUnknown
}

// ByManifest reports whether a cluster joins with a manifest. The annotation decides until an agent has reported: after
// that, another way would install a second one in its place.
func ByManifest(in Input) bool {
	if in.Cluster.Join == JoinUnknown || IsMarked(in.Fleet) && clusters.LastSeen(in.Fleet) != "" {
		return IsByManifest(in.Fleet)
	}
	return in.Cluster.Join == JoinByManifest
}

// IsByManifest reports whether the hub has arranged that a Cluster of Fleet joins with a manifest.
func IsByManifest(cluster *fleet.Cluster) bool {
	return IsMarked(cluster) && cluster.Annotations[annotation.CAPIJoin] == joinWithAgent
}

// NeedsClientID reports whether Arrange needs a client ID.
func NeedsClientID(in Input) bool {
	return ByManifest(in) && (in.Fleet == nil || in.Fleet.Spec.ClientID == "")
}

// Arrange changes how a Cluster of Fleet joins, if that is another way than before. clientID is that of a Cluster that
// needs one. The kubeconfig is only used if the control plane has answered and the Secret is valid, as for a new Cluster.
func Arrange(cluster *fleet.Cluster, in Input, clientID string) {
	spec := &cluster.Spec
	if ByManifest(in) {
		objects.Annotate(cluster, annotation.CAPIJoin, joinWithAgent)
		if namesSecret(cluster) {
			spec.KubeConfigSecret, spec.KubeConfigSecretNamespace = "", ""
		}
		if spec.ClientID == "" {
			spec.ClientID = clientID
		}
		return
	}
	if !IsByManifest(cluster) || !in.Cluster.Initialized || in.Secret.obstacle(in.Cluster) != "" {
		return
	}
	objects.Annotate(cluster, annotation.CAPIJoin, "")
	if spec.KubeConfigSecret == "" {
		spec.KubeConfigSecret, spec.KubeConfigSecretNamespace = SecretName(cluster.Name), ""
	}
}

// namesSecret reports whether a Cluster of Fleet names the kubeconfig Secret of the Cluster of Cluster API with its name.
func namesSecret(cluster *fleet.Cluster) bool {
	return clusters.KubeconfigSecret(cluster) == types.NamespacedName{Namespace: cluster.Namespace, Name: SecretName(cluster.Name)}
}

// IsMinor reports whether a reason is less important than that a cluster has not joined.
func IsMinor(reason string) bool {
	switch reason {
	case "", conditions.ReasonNameTaken, conditions.ReasonVariablesLeftOut, conditions.ReasonLabelsLeftOut:
		return true
	}
	return false
}

func unknownJoin() (reason, message string) {
	return conditions.ReasonJoinUnknown, fmt.Sprintf("the annotation %s of the Cluster of Cluster API has an unknown value: set it to %q, or remove it to join the cluster with its kubeconfig", annotation.CAPIJoin, joinWithAgent)
}
