package importing

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// desiredStatus returns the status after a complete import: the hub's address and every setting of the agent. The
// hashes cover the same bytes as those of Rancher Fleet, so that agents are not imported again when this hub replaces
// it.
func desiredStatus(in Input) (Status, error) {
	spec := in.Cluster.Spec
	generation := spec.RedeployAgentGeneration
	url, ca := hubAddress(in)
	want := Status{
		AgentDeployedGeneration: &generation, Migrated: true, APIServerURL: url,
		AgentTLSMode: in.Config.AgentTLSMode, GarbageCollectionInterval: &metav1.Duration{Duration: in.Config.GarbageCollectionInterval.Duration},
		AgentPrivateRepoURL: spec.PrivateRepoURL, AgentHostNetwork: spec.HostNetwork != nil && *spec.HostNetwork,
		PullSecrets: pullSecretVersions(in),
	}
	hashes := []struct {
		into  *string
		unset bool
		value any
	}{
		{&want.APIServerCAHash, false, ca},
		{&want.AgentEnvVarsHash, len(spec.AgentEnvVars) == 0, spec.AgentEnvVars},
		{&want.AgentAffinityHash, spec.AgentAffinity == nil, spec.AgentAffinity},
		{&want.AgentResourcesHash, spec.AgentResources == nil, spec.AgentResources},
		{&want.AgentTolerationsHash, len(spec.AgentTolerations) == 0, spec.AgentTolerations},
		{&want.AgentSchedulingCustomizationHash, spec.AgentSchedulingCustomization == nil, spec.AgentSchedulingCustomization},
	}
	for _, h := range hashes {
		if h.unset {
			continue
		}
		sum, err := statusHash(h.value)
		if err != nil {
			return Status{}, err
		}
		*h.into = sum
	}
	return want, nil
}

func statusHash(setting any) (string, error) {
	sum, err := names.StatusHash(setting)
	if err != nil {
		return "", fmt.Errorf("hashing an agent setting: %w", err)
	}
	return sum, nil
}

// deployment returns the agent to apply, without its bootstrap Secret.
func deployment(in Input, want Status) *AgentDeployment {
	cluster := in.Cluster
	deploy := &AgentDeployment{
		TLSMode: in.Config.AgentTLSMode,
		SetID:   names.AgentSetID(cluster.Spec.AgentNamespace),
		Values:  AgentSettings(cluster, in.Config, in.Defaults, in.Namespaces),
	}
	deploy.Values.Config = agentConfig(cluster, in.Config)
	generation := cluster.Status.AgentDeployedGeneration
	deploy.LeaveNamespace = left(in)
	deploy.NewRegistration = generation == nil || *generation != cluster.Spec.RedeployAgentGeneration || moved(in)
	deploy.Identity = AgentIdentity{ClusterNamespace: cluster.Namespace, ClusterName: cluster.Name, TokenName: names.ImportToken(cluster.Name)}
	deploy.PullSecrets = PropagatedPullSecrets(cluster, in.Config)
	deploy.DroppedPullSecrets = droppedPullSecrets(in)
	if deploy.LeaveNamespace != "" {
		deploy.DroppedPullSecrets, deploy.LeftPullSecrets = nil, notedPullSecrets(cluster)
		deploy.LeaveSetIDs = setIDs(deploy.LeaveNamespace, in.Namespaces)
	}
	known := statusOf(cluster)
	deploy.Scheduling = known.AgentSchedulingCustomizationHash != want.AgentSchedulingCustomizationHash
	deploy.Leftovers = deploy.NewRegistration && in.Namespaces.System != names.SystemNamespace && deploy.Values.Namespace != names.SystemNamespace
	if deploy.NewRegistration {
		return deploy
	}
	if in.Repair != supervision.RepairRejected {
		deploy.Accounts = in.Accounts
	}
	deploy.BesideBundle = bundleOwns(in)
	deploy.Corrects = in.Repair == supervision.RepairSettings
	deploy.InspectOnly = inSync(in, want) && !in.Stale && in.Repair == supervision.RepairNone
	if !sameAddress(known, want) || known.AgentTLSMode != want.AgentTLSMode {
		deploy.Readdress = readdress(in, want)
	}
	return deploy
}

// readdress returns the hub's address for an agent that has another one.
func readdress(in Input, want Status) *HubAddress {
	return &HubAddress{URL: want.APIServerURL, CA: slices.Clone(hubCA(in)), FromSecret: want.APIServerURL != in.Config.APIServerURL}
}

// agentConfig returns the agent's own configuration.
func agentConfig(cluster *fleet.Cluster, conf config.Config) *config.Agent {
	return &config.Agent{
		Labels:                    RegistrationLabels(cluster.Labels),
		ClientID:                  cluster.Spec.ClientID,
		AgentTLSMode:              conf.AgentTLSMode,
		GarbageCollectionInterval: conf.GarbageCollectionInterval,
	}
}

// NewAgent returns an agent that registers with a bootstrap document, for a cluster on which the hub does not install it.
// It has the same settings as with an import.
func NewAgent(cluster *fleet.Cluster, conf config.Config, defaults AgentDefaults, namespaces clusters.Namespaces, bootstrap protocol.Bootstrap) *AgentDeployment {
	values := AgentSettings(cluster, conf, defaults, namespaces)
	values.Config, values.Bootstrap = agentConfig(cluster, conf), &bootstrap
	return &AgentDeployment{
		TLSMode: conf.AgentTLSMode, SetID: names.AgentSetID(cluster.Spec.AgentNamespace), Values: values,
		NewRegistration: true, PullSecrets: PropagatedPullSecrets(cluster, conf),
	}
}

// left returns the namespace that an agent moves out of and that still holds its identity, or "" if it does not move.
func left(in Input) string {
	status := in.Cluster.Status
	switch {
	case !moved(in):
		return ""
	case status.Agent.Namespace == "" && status.AgentDeployedGeneration != nil:
		return in.Namespaces.System // deployed there, and not reported yet
	}
	return status.Agent.Namespace
}

// setIDs returns the IDs of the sets that an agent in a namespace may belong to. A set is named after spec.agentNamespace, which
// can be empty for an agent in the hub's system namespace.
func setIDs(namespace string, namespaces clusters.Namespaces) []string {
	if namespace != namespaces.System {
		return []string{names.AgentSetID(namespace)}
	}
	return []string{names.AgentSetID(namespace), names.AgentSetID("")}
}

// AgentSettings returns the values of a Cluster's agent that do not depend on how it is deployed. The import and the
// agent's Bundle render the same Deployment from them.
func AgentSettings(cluster *fleet.Cluster, conf config.Config, defaults AgentDefaults, namespaces clusters.Namespaces) AgentValues {
	spec := cluster.Spec
	values := AgentValues{
		Namespace:               AgentNamespace(cluster, namespaces),
		Scope:                   spec.AgentNamespace,
		Replicas:                defaults.Replicas,
		Image:                   AgentImage(conf.AgentImage, conf.SystemDefaultRegistry, spec.PrivateRepoURL),
		ImagePullPolicy:         conf.AgentImagePullPolicy,
		ImagePullSecrets:        conf.ImagePullSecrets,
		CheckinInterval:         conf.AgentCheckinInterval.Duration.String(),
		BundleDeploymentWorkers: conf.AgentWorkers.BundleDeployment,
		DriftWorkers:            conf.AgentWorkers.Drift,
		LeaseDuration:           defaults.LeaseDuration, RetryPeriod: defaults.RetryPeriod, RenewDeadline: defaults.RenewDeadline,
		Debug: defaults.Debug, DebugLevel: defaults.DebugLevel, DisableSecurityContext: defaults.DisableSecurityContext,
		Env:         agentEnv(spec.AgentEnvVars, defaults),
		Tolerations: spec.AgentTolerations, Affinity: spec.AgentAffinity, Resources: spec.AgentResources,
		HostNetwork: spec.HostNetwork != nil && *spec.HostNetwork,
	}
	if spec.AgentPullSecrets != nil {
		values.ImagePullSecrets = *spec.AgentPullSecrets
	}
	if custom := spec.AgentSchedulingCustomization; custom != nil {
		values.PriorityClass, values.PodDisruptionBudget = custom.PriorityClass, custom.PodDisruptionBudget
		values.SchedulingInBundle = schedulingInBundle(cluster)
	}
	return values
}

// agentEnv returns the variables of a Cluster's agent, those of the controllers first.
func agentEnv(own []corev1.EnvVar, defaults AgentDefaults) []corev1.EnvVar {
	if defaults.ErrorMapping == "" || slices.ContainsFunc(own, func(v corev1.EnvVar) bool { return v.Name == names.ErrorMappingVariable }) {
		return own
	}
	return append([]corev1.EnvVar{{Name: names.ErrorMappingVariable, Value: defaults.ErrorMapping}}, own...)
}

// AgentImage replaces the default registry of the agent's image by the Cluster's own registry, if it has one.
func AgentImage(image, registry, private string) string {
	if private == "" {
		return image
	}
	if registry != "" {
		image = strings.TrimPrefix(image, registry)
	}
	if strings.HasPrefix(image, private) {
		return image
	}
	return path.Join(private, image)
}

// RegistrationLabels returns the labels of a Cluster that its agent sends when it registers. It leaves out those of
// kubectl and of the managers.
func RegistrationLabels(labels map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range labels {
		if strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.Contains(key, "cattle.io/") {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
}
