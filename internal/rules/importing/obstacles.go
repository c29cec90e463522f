package importing

import (
	"fmt"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// identify makes sure that the Cluster's client ID is set and unique. The import continues if the outcome has no
// stage.
func identify(in Input) Outcome {
	spec, older := in.Cluster.Spec, olderNamesake(in)
	switch {
	case spec.ClientID == "" && spec.KubeConfigSecret == "":
		return blocked(fleet.ReasonClientIDMissing, "no agent can join as this Cluster: set spec.clientID to the client ID of its agent, or name a kubeconfig Secret in spec.kubeConfigSecret")
	case spec.ClientID == "":
		return Outcome{Stage: NeedsClientID}
	case older != nil:
		return blocked(fleet.ReasonClientIDAmbiguous, fmt.Sprintf("Cluster %s is older and has the same spec.clientID, so agents with this client ID join as that Cluster: give this Cluster a client ID of its own, or delete one of the two", older.Name))
	}
	return Outcome{}
}

// olderNamesake returns the Cluster that agents with this client ID join as, or nil if it is this one.
func olderNamesake(in Input) *fleet.Cluster {
	of := []*fleet.Cluster{in.Cluster}
	for _, other := range in.Namesakes {
		if other.UID != in.Cluster.UID && other.Spec.ClientID == in.Cluster.Spec.ClientID {
			of = append(of, other)
		}
	}
	if first := clusters.FirstOf(of); first != in.Cluster {
		return first
	}
	return nil
}

// obstacle returns what only a person can resolve. An empty reason means that nothing blocks the import.
func obstacle(in Input, want Status) (reason, message string) {
	missing := missingPullSecret(in)
	switch cluster := in.Cluster; {
	case in.Kubeconfig == nil:
		return fleet.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s does not exist: create it, or correct spec.kubeConfigSecret", KubeconfigSecret(cluster))
	case len(in.Kubeconfig.Data[protocol.KubeconfigValueKey]) == 0:
		return fleet.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s has no key %q: put the kubeconfig there", KubeconfigSecret(cluster), protocol.KubeconfigValueKey)
	case want.APIServerURL == "":
		return fleet.ReasonHubURLMissing, "the agent needs a URL of this hub and none is configured: set apiServerURL in the fleet chart, or the key apiServerURL of the kubeconfig Secret"
	case protocol.CheckHubURL(want.APIServerURL) != nil:
		return fleet.ReasonHubURLInvalid, "the configured URL of this hub is invalid or does not begin with https://: correct apiServerURL in the fleet chart, or the key apiServerURL of the kubeconfig Secret"
	case in.Config.AgentTLSMode != config.TLSModeStrict && in.Config.AgentTLSMode != config.TLSModeSystemStore:
		return fleet.ReasonTLSModeUnknown, fmt.Sprintf("agentTLSMode is %q: set it to %q or %q in the fleet chart", in.Config.AgentTLSMode, config.TLSModeStrict, config.TLSModeSystemStore)
	case in.Config.AgentTLSMode == config.TLSModeStrict && len(hubCA(in)) == 0:
		return fleet.ReasonHubCAMissing, "agentTLSMode is \"strict\" and no CA of this hub is configured: set apiServerCA in the fleet chart, or the key apiServerCA of the kubeconfig Secret"
	case missing != "":
		return fleet.ReasonPullSecretMissing, fmt.Sprintf("image pull Secret %s/%s does not exist: create it, or correct imagePullSecrets of the fleet chart", in.Namespaces.System, missing)
	}
	return "", ""
}

func blocked(reason, message string) Outcome {
	return Outcome{Stage: Blocked, Reason: reason, Message: message}
}
