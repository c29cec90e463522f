package agentchart

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// The values of the chart's internal.deployment: which objects are rendered with the Deployment.
const (
	deployImport   = "import"
	deployReimport = "reimport"
	deployBundle   = "bundle"
)

// chartValues converts v to values of the chart. It sets every value, also empty ones, because a setting that
// the hub leaves empty must not get the chart's default.
func chartValues(v importing.AgentValues) (map[string]any, error) {
	values := map[string]any{
		"agent": map[string]any{
			"replicas": v.Replicas,
			"reconciler": map[string]any{"workers": map[string]any{
				"bundledeployment": v.BundleDeploymentWorkers, "drift": v.DriftWorkers,
			}},
		},
		"leaderElection": map[string]any{
			"leaseDuration": v.LeaseDuration, "retryPeriod": v.RetryPeriod, "renewDeadline": v.RenewDeadline,
		},
		"agentCheckinInterval":   v.CheckinInterval,
		"debug":                  v.Debug,
		"debugLevel":             v.DebugLevel,
		"disableSecurityContext": v.DisableSecurityContext,
		"extraEnv":               v.Env,
		"image":                  map[string]any{"imagePullPolicy": v.ImagePullPolicy},
		"global":                 map[string]any{"cattle": map[string]any{"imagePullSecrets": v.ImagePullSecrets}},
		"fleetAgent":             pods(v),
	}
	way, err := identity(v, values)
	if err != nil {
		return nil, err
	}
	values["internal"] = map[string]any{
		"systemNamespace": v.Namespace, "managedReleaseName": names.Agent, "deployment": way, "scheduling": v.SchedulingInBundle, "image": v.Image,
	}
	return plain(values)
}

// pods returns the values below fleetAgent. A missing key keeps the chart's default, an empty value does not
// (see affinity).
func pods(v importing.AgentValues) map[string]any {
	values := map[string]any{"scope": v.Scope, "tolerations": v.Tolerations, "hostNetwork": v.HostNetwork}
	if v.Affinity != nil {
		values["affinity"] = v.Affinity
	}
	if v.Resources != nil {
		values["resources"] = v.Resources
	}
	if v.PriorityClass != nil {
		values["priorityClass"] = v.PriorityClass
	}
	if v.PodDisruptionBudget != nil {
		values["podDisruptionBudget"] = v.PodDisruptionBudget
	}
	return values
}

// identity adds the values that only an import has, and returns the value of internal.deployment.
func identity(v importing.AgentValues, values map[string]any) (string, error) {
	switch {
	case v.Config == nil && v.Bootstrap == nil:
		return deployBundle, nil
	case v.Config == nil:
		return "", ErrBootstrapWithoutConfig
	}
	maps.Copy(values, map[string]any{
		"labels": v.Config.Labels, "clientID": v.Config.ClientID, "agentTLSMode": v.Config.AgentTLSMode,
		"garbageCollectionInterval": v.Config.GarbageCollectionInterval.Duration.String(),
	})
	if v.Bootstrap == nil {
		return deployReimport, nil
	}
	maps.Copy(values, map[string]any{
		"apiServerURL": v.Bootstrap.APIServerURL, "apiServerCA": string(v.Bootstrap.APIServerCA),
		"clusterNamespace": v.Bootstrap.ClusterNamespace, "token": v.Bootstrap.Token, "tokenName": v.Bootstrap.TokenName,
		"systemRegistrationNamespace": v.Bootstrap.SystemRegistrationNamespace,
	})
	return deployImport, nil
}

// plain converts values to the types that Helm reads from a file: maps, lists, strings, numbers.
func plain(values map[string]any) (map[string]any, error) {
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encoding the agent's settings: %w", err)
	}
	decoded := map[string]any{}
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		return nil, fmt.Errorf("encoding the agent's settings: %w", err)
	}
	return decoded, nil
}
