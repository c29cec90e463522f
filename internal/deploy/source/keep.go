package source

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Environment variables that name the proxy.
const (
	httpProxy  = "HTTP_PROXY"
	httpsProxy = "HTTPS_PROXY"
	noProxy    = "NO_PROXY"
	// beforeProxy is the last of the chart's own variables. The proxy variables are inserted after it, where the chart
	// has them, so that the pod template does not change.
	beforeProxy = "CATTLE_ELECTION_RENEW_DEADLINE"
)

// AgentDeployments returns the Deployments of agents in a manifest, or none if it is not valid.
func AgentDeployments(text string) []*unstructured.Unstructured {
	objects, err := manifest.Parse([]byte(text))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return !isAgentDeployment(object) })
}

func isAgentDeployment(object *unstructured.Unstructured) bool {
	return object.GetKind() == "Deployment" && object.GetName() == names.Agent
}

// keepInstalled copies settings from the installed agent's Deployment that the cluster's admin made and the hub
// does not know: the proxy, the node selector, and the number of replicas. Settings from the hub win. The result
// depends only on the two Deployments, so later comparisons find no drift.
func keepInstalled(object, installed *unstructured.Unstructured) {
	keepNodeSelector(object, installed)
	keepReplicas(object, installed)
	keepProxy(object, installed)
}

func keepNodeSelector(object, installed *unstructured.Unstructured) {
	path := []string{"spec", "template", "spec", "nodeSelector"}
	selector, _, err := unstructured.NestedStringMap(object.Object, path...)
	added, _, addedErr := unstructured.NestedStringMap(installed.Object, path...)
	if err != nil || addedErr != nil || len(added) == 0 {
		return
	}
	merged := map[string]any{}
	for key, value := range added {
		merged[key] = value
	}
	for key, value := range selector {
		merged[key] = value
	}
	_ = unstructured.SetNestedMap(object.Object, merged, path...) // cannot fail: its parents are maps
}

// keepReplicas keeps a higher number of replicas, and the pod anti-affinity that the chart renders for several
// replicas.
func keepReplicas(object, installed *unstructured.Unstructured) {
	wanted, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	several, _, severalErr := unstructured.NestedInt64(installed.Object, "spec", "replicas")
	if err != nil || severalErr != nil || wanted != 1 || several <= 1 {
		return
	}
	_ = unstructured.SetNestedField(object.Object, several, "spec", "replicas") // cannot fail: the path was just read
	path := []string{"spec", "template", "spec", "affinity"}
	spread, _, err := unstructured.NestedMap(installed.Object, path...)
	if err != nil || spread["podAntiAffinity"] == nil {
		return
	}
	alone, _, err := unstructured.NestedMap(object.Object, path...)
	without, _, withoutErr := unstructured.NestedMap(installed.Object, path...)
	delete(without, "podAntiAffinity")
	if err == nil && withoutErr == nil && reflect.DeepEqual(alone, without) {
		_ = unstructured.SetNestedMap(object.Object, spread, path...) // cannot fail: the path was just read
	}
}

func keepProxy(object, installed *unstructured.Unstructured) {
	container := agentContainer(object)
	if container == nil {
		return
	}
	env, _ := container["env"].([]any)
	given, _ := agentContainer(installed)["env"].([]any)
	var kept []any
	for _, variable := range given {
		if name := nameOfVariable(variable); isProxyVariable(name) && !slices.ContainsFunc(env, func(v any) bool { return nameOfVariable(v) == name }) {
			kept = append(kept, variable)
		}
	}
	if len(kept) == 0 {
		return
	}
	at := 1 + slices.IndexFunc(env, func(v any) bool { return nameOfVariable(v) == beforeProxy })
	if at == 0 {
		at = len(env)
	}
	container["env"] = slices.Concat(env[:at], kept, env[at:])
}

func isProxyVariable(name string) bool {
	return slices.Contains([]string{httpProxy, httpsProxy, noProxy}, name)
}

func nameOfVariable(variable any) string {
	fields, _ := variable.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// agentContainer returns the agent's container, not as a copy; nil if it is missing.
func agentContainer(object *unstructured.Unstructured) map[string]any {
	list, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", "containers")
	containers, ok := list.([]any)
	if err != nil || !ok {
		return nil
	}
	for _, entry := range containers {
		if container, ok := entry.(map[string]any); ok && container["name"] == names.Agent {
			return container
		}
	}
	return nil
}
