package handshake

import (
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/config"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// PropagatedPullSecrets are the names of the Secrets of the hub's system namespace that go with a Cluster's agent,
// sorted: those of the configuration. A Cluster that names its own, be it none, gets none: they are there already.
func PropagatedPullSecrets(cluster *fleet.Cluster, conf config.Config) []string {
	if cluster.Spec.AgentPullSecrets != nil {
		return nil
	}
	var secrets []string
	for _, secret := range conf.ImagePullSecrets {
		if secret.Name != "" {
			secrets = append(secrets, secret.Name)
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// pullSecretVersions tells the versions of all pull secrets that go with the agent; "" if none does.
func pullSecretVersions(in ImportInput) string {
	var versions []string
	for _, name := range PropagatedPullSecrets(in.Cluster, in.Config) {
		versions = append(versions, name+"="+in.PullSecrets[name])
	}
	return strings.Join(versions, ",")
}

// missingPullSecret is the first pull secret that is not there; "" if all are.
func missingPullSecret(in ImportInput) string {
	for _, name := range PropagatedPullSecrets(in.Cluster, in.Config) {
		if in.PullSecrets[name] == "" {
			return name
		}
	}
	return ""
}
