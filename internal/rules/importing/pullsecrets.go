package importing

import (
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
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
func pullSecretVersions(in Input) string {
	var versions []string
	for _, name := range PropagatedPullSecrets(in.Cluster, in.Config) {
		versions = append(versions, name+"="+in.PullSecrets[name])
	}
	return strings.Join(versions, ",")
}

// notedPullSecrets are the names of the pull secrets that the last import copied. Whoever may edit the Cluster may edit
// this note: only objects with the marks of the agent's set may be removed because of it.
func notedPullSecrets(cluster *fleet.Cluster) (noted []string) {
	for entry := range strings.SplitSeq(cluster.Annotations[fleet.AnnotationPullSecrets], ",") {
		name, _, valid := strings.Cut(entry, "=")
		if valid && name != names.Agent && name != names.AgentBootstrap {
			noted = append(noted, name)
		}
	}
	return noted
}

// droppedPullSecrets are the pull secrets that went with the agent and no longer do. Those that the Cluster names
// itself stay.
func droppedPullSecrets(in Input) []string {
	keep := PropagatedPullSecrets(in.Cluster, in.Config)
	if own := in.Cluster.Spec.AgentPullSecrets; own != nil {
		for _, secret := range *own {
			keep = append(keep, secret.Name)
		}
	}
	return slices.DeleteFunc(notedPullSecrets(in.Cluster), func(name string) bool { return slices.Contains(keep, name) })
}

// missingPullSecret is the first pull secret that is not there; "" if all are.
func missingPullSecret(in Input) string {
	for _, name := range PropagatedPullSecrets(in.Cluster, in.Config) {
		if in.PullSecrets[name] == "" {
			return name
		}
	}
	return ""
}
