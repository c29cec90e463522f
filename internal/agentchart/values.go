package agentchart

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// The chart's internal.deployment: which objects go with the Deployment.
const (
	deployImport   = "import"
	deployReimport = "reimport"
	deployBundle   = "bundle"
)

// chartValues are the chart's values for v. Every setting is given, the empty ones too: what the hub
// leaves empty must not become a default of the chart.
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
		"systemNamespace": v.Namespace, "managedReleaseName": names.Agent, "deployment": way, "image": v.Image,
	}
	return plain(values)
}

// pods are the values below fleetAgent. A key that is absent keeps the chart's own choice, one that is
// empty does not: see affinity.
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

// identity adds what only an import has, and says which way of deploying v stands for.
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

// plain is values as Helm reads them from a file: maps, lists, text, numbers.
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
