package importing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// PropagatedPullSecrets returns the sorted names of the configured pull Secrets that are copied from the hub's system
// namespace. A Cluster with its own list, even an empty one, gets no copies: its Secrets exist downstream.
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

// pullSecretVersions returns the versions of all copied pull Secrets, or "" if none are copied.
func pullSecretVersions(in Input) string {
	var versions []string
	for _, name := range PropagatedPullSecrets(in.Cluster, in.Config) {
		versions = append(versions, name+"="+in.PullSecrets[name])
	}
	return strings.Join(versions, ",")
}

// notedPullSecrets returns the names of the pull Secrets that the last import copied. A tenant with write access to
// the Cluster can edit this annotation, so only objects with the marks of the agent's set may be removed because of it.
func notedPullSecrets(cluster *fleet.Cluster) (noted []string) {
	for entry := range strings.SplitSeq(cluster.Annotations[annotation.PullSecrets], ",") {
		name, _, valid := strings.Cut(entry, "=")
		if valid && name != names.Agent && name != names.AgentBootstrap {
			noted = append(noted, name)
		}
	}
	return noted
}

// droppedPullSecrets returns the pull Secrets that were copied and are no longer wanted. Secrets that the Cluster
// names itself are kept.
func droppedPullSecrets(in Input) []string {
	keep := PropagatedPullSecrets(in.Cluster, in.Config)
	if own := in.Cluster.Spec.AgentPullSecrets; own != nil {
		for _, secret := range *own {
			keep = append(keep, secret.Name)
		}
	}
	return slices.DeleteFunc(notedPullSecrets(in.Cluster), func(name string) bool { return slices.Contains(keep, name) })
}

// pullSecretProblem returns why the pull Secrets cannot be copied to the agent.
func pullSecretProblem(cluster *fleet.Cluster, conf config.Config, secrets map[string]string, namespaces clusters.Namespaces) (reason, message string) {
	for _, name := range PropagatedPullSecrets(cluster, conf) {
		if secrets[name] == "" {
			return conditions.ReasonPullSecretMissing, fmt.Sprintf("image pull Secret %s/%s does not exist: create it, or correct imagePullSecrets of the fleet chart", namespaces.System, name)
		}
	}
	return "", ""
}
