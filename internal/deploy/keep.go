package deploy

import (
	"context"
	"reflect"
	"slices"

	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// How a process is told of a proxy.
const (
	httpProxy  = "HTTP_PROXY"
	httpsProxy = "HTTPS_PROXY"
	noProxy    = "NO_PROXY"
	// beforeProxy is the last of the chart's own variables before those: in their old place they change no pod.
	beforeProxy = "CATTLE_ELECTION_RENEW_DEADLINE"
)

// installedAgent is the agent's Deployment as somebody's release of charts/fleet-agent has it; nil for a
// BundleDeployment that is not the agent's own, and for an agent that came another way. Who deploys under an account
// learns nothing of it.
func (d *deployer) installedAgent(ctx context.Context, bd *fleet.BundleDeployment, who *identity, own releaseKey) (*unstructured.Unstructured, error) {
	installed := releaseKey{Namespace: own.Namespace, Name: names.Agent}
	if !d.isAgent(bd.Name) || own == installed || who != d.agent {
		return nil, nil //nolint:nilnil // nothing to keep
	}
	h, err := d.releaser.history(ctx, installed)
	if err != nil {
		return nil, err
	}
	for _, revision := range slices.Backward(h.revisions) {
		if revision.Info.Status != release.StatusDeployed {
			continue
		}
		objects, err := parseObjects([]byte(revision.Manifest))
		if err != nil {
			return nil, nil //nolint:nilnil // what nobody can read has nothing to keep
		}
		for _, object := range objects {
			if isAgentDeployment(object) {
				return object, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // nothing to keep
}

func isAgentDeployment(object *unstructured.Unstructured) bool {
	return object.GetKind() == "Deployment" && object.GetName() == names.Agent
}

// keepInstalled carries over to an agent's Deployment, as the hub has it, what only the cluster's admin can know and
// the hub says nothing of: by which proxy the hub is reached, on which nodes the agent may run, and how many of it
// there are to be. What the hub does say wins. The result depends on nothing but the two, so that the agent finds it
// as deployed ever after.
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
	_ = unstructured.SetNestedMap(object.Object, merged, path...) // below a map that was read a moment ago
}

// keepReplicas also keeps what the chart renders for several: that they prefer different nodes.
func keepReplicas(object, installed *unstructured.Unstructured) {
	wanted, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	several, _, severalErr := unstructured.NestedInt64(installed.Object, "spec", "replicas")
	if err != nil || severalErr != nil || wanted != 1 || several <= 1 {
		return
	}
	_ = unstructured.SetNestedField(object.Object, several, "spec", "replicas") // read a moment ago
	path := []string{"spec", "template", "spec", "affinity"}
	spread, _, err := unstructured.NestedMap(installed.Object, path...)
	if err != nil || spread["podAntiAffinity"] == nil {
		return
	}
	alone, _, err := unstructured.NestedMap(object.Object, path...)
	without, _, withoutErr := unstructured.NestedMap(installed.Object, path...)
	delete(without, "podAntiAffinity")
	if err == nil && withoutErr == nil && reflect.DeepEqual(alone, without) {
		_ = unstructured.SetNestedMap(object.Object, spread, path...) // read a moment ago
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

// agentContainer is the container of the agent, not a copy; nil if there is none.
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
