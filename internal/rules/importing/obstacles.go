package importing

import (
	"fmt"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// identify makes sure that the Cluster's client ID is set and unique. The import continues if the outcome has no
// stage.
func identify(in Input) Outcome {
	spec, older := in.Cluster.Spec, olderNamesake(in)
	switch {
	case spec.ClientID == "" && spec.KubeConfigSecret == "":
		return blocked(conditions.ReasonClientIDMissing, "no agent can join as this Cluster: set spec.clientID to the client ID of its agent, or name a kubeconfig Secret in spec.kubeConfigSecret")
	case spec.ClientID == "":
		return Outcome{Stage: NeedsClientID}
	case older != nil:
		return blocked(conditions.ReasonClientIDAmbiguous, fmt.Sprintf("Cluster %s is older and has the same spec.clientID, so agents with this client ID join as that Cluster: give this Cluster a client ID of its own, or delete one of the two", older.Name))
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
	switch cluster := in.Cluster; {
	case in.Kubeconfig == nil:
		return conditions.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s does not exist: create it, or correct spec.kubeConfigSecret", clusters.KubeconfigSecret(cluster))
	case len(in.Kubeconfig.Data[protocol.KubeconfigValueKey]) == 0:
		return conditions.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s has no key %q: put the kubeconfig there", clusters.KubeconfigSecret(cluster), protocol.KubeconfigValueKey)
	}
	if reason, message := hubProblem(in.Config, want.APIServerURL, hubCA(in), "of the kubeconfig Secret"); reason != "" {
		return reason, message
	}
	return pullSecretProblem(in.Cluster, in.Config, in.PullSecrets, in.Namespaces)
}

// AgentObstacle returns why an agent cannot be given what it needs of the hub, whichever way it is installed, and what to
// do. secrets are the versions of the pull Secrets. An empty reason means that there is no obstacle.
func AgentObstacle(cluster *fleet.Cluster, conf config.Config, secrets map[string]string, namespaces clusters.Namespaces) (reason, message string) {
	if reason, message := hubProblem(conf, conf.APIServerURL, conf.APIServerCA, ""); reason != "" {
		return reason, message
	}
	return pullSecretProblem(cluster, conf, secrets, namespaces)
}

// hubProblem returns why agents cannot reach the hub with this address. keysOf names the object that can contain the
// address instead of the configuration, or is empty.
func hubProblem(conf config.Config, url string, ca []byte, keysOf string) (reason, message string) {
	switch {
	case url == "":
		return conditions.ReasonHubURLMissing, "the agent needs a URL of this hub and none is configured: set apiServerURL in the fleet chart" + orKey(protocol.APIServerURLKey, keysOf)
	case protocol.CheckHubURL(url) != nil:
		return conditions.ReasonHubURLInvalid, "the configured URL of this hub is invalid or does not begin with https://: correct apiServerURL in the fleet chart" + orKey(protocol.APIServerURLKey, keysOf)
	case conf.AgentTLSMode != config.TLSModeStrict && conf.AgentTLSMode != config.TLSModeSystemStore:
		return conditions.ReasonTLSModeUnknown, fmt.Sprintf("agentTLSMode is %q: set it to %q or %q in the fleet chart", conf.AgentTLSMode, config.TLSModeStrict, config.TLSModeSystemStore)
	case len(ca) > 0 && !protocol.IsCA(string(ca)):
		return conditions.ReasonHubCAInvalid, "the configured CA of this hub contains no certificate in PEM: correct apiServerCA in the fleet chart with --set-file apiServerCA=hub-ca.pem" + orKey(protocol.APIServerCAKey, keysOf)
	case conf.AgentTLSMode == config.TLSModeStrict && len(ca) == 0:
		return conditions.ReasonHubCAMissing, "agentTLSMode is \"strict\" and no CA of this hub is configured: set apiServerCA in the fleet chart" + orKey(protocol.APIServerCAKey, keysOf)
	}
	return "", ""
}

// AgentOfAnotherMessage explains that the agent belongs to another Cluster of the hub, which came later. It names nothing of another
// workspace.
func AgentOfAnotherMessage(cluster, other *fleet.Cluster) string {
	owner := "a Cluster of another workspace"
	if other.Namespace == cluster.Namespace {
		owner = "Cluster " + other.Namespace + "/" + other.Name
	}
	return fmt.Sprintf("the agent of this cluster now belongs to %s, and this Cluster leaves it alone: delete this Cluster with fleet unregister %s -n %s --keep-workloads, or take the agent back with fleet repair %s -n %s",
		owner, cluster.Name, cluster.Namespace, cluster.Name, cluster.Namespace)
}

func orKey(key, of string) string {
	if of == "" {
		return ""
	}
	return ", or the key " + key + " " + of
}

func blocked(reason, message string) Outcome {
	return Outcome{Stage: Blocked, Reason: reason, Message: message}
}
