package source

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// byHub returns the agent's Deployment as the agent's Bundle contains it.
func byHub(t *testing.T, v importing.AgentValues) *unstructured.Unstructured {
	t.Helper()
	manifest, err := agentchart.Manifest(v)
	if err != nil {
		t.Fatal(err)
	}
	return deploytest.DeploymentIn(t, string(manifest))
}

func TestKeepInstalled(t *testing.T) {
	hub := func(change func(*importing.AgentValues)) importing.AgentValues {
		v := deploytest.AgentIn("ns")
		change(&v)
		return v
	}
	nothing := func(*importing.AgentValues) {}
	env := func(variables ...corev1.EnvVar) func(*importing.AgentValues) {
		return func(v *importing.AgentValues) { v.Env = variables }
	}
	tests := map[string]struct {
		installed map[string]any
		hub       func(*importing.AgentValues)
		want      func(t *testing.T, hub, installed *unstructured.Unstructured) *unstructured.Unstructured
	}{
		"no settings by the admin: hub's Deployment is unchanged": {nil, nothing, hubs},
		"all settings by the admin: pod template is unchanged":    {deploytest.EverySetting(), nothing, admins},
		"a proxy":         {map[string]any{"proxy": "http://proxy:3128"}, nothing, admins},
		"a node selector": {map[string]any{"fleetAgent": map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}}}, nothing, admins},
		"several replicas, which prefer different nodes": {map[string]any{"agent": map[string]any{"replicas": 3}}, nothing, admins},
		"proxy variables come before the hub's variables": {map[string]any{"proxy": "http://proxy:3128"}, env(corev1.EnvVar{Name: "A", Value: "b"}),
			func(t *testing.T, hub, installed *unstructured.Unstructured) *unstructured.Unstructured {
				variables := append(agentContainer(installed)["env"].([]any), map[string]any{"name": "A", "value": "b"})
				agentContainer(hub)["env"] = variables
				return hub
			}},
		"the hub's own proxy wins": {
			map[string]any{"proxy": "http://proxy:3128", "noProxy": "10.0.0.0/8"},
			env(corev1.EnvVar{Name: "HTTP_PROXY", Value: "a"}, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "b"}, corev1.EnvVar{Name: "NO_PROXY", Value: "c"}), hubs,
		},
		"the hub's number of replicas wins": {map[string]any{"agent": map[string]any{"replicas": 3}}, func(v *importing.AgentValues) { v.Replicas = 2 }, hubs},
		"the Cluster's own affinity wins": {map[string]any{"agent": map[string]any{"replicas": 3}},
			func(v *importing.AgentValues) { v.Affinity = &corev1.Affinity{} },
			func(t *testing.T, hub, _ *unstructured.Unstructured) *unstructured.Unstructured {
				setField(t, hub, int64(3), "spec", "replicas")
				return hub
			}},
		"other settings: the hub's are used": {map[string]any{"debug": true, "extraEnv": []any{map[string]any{"name": "A", "value": "b"}},
			"fleetAgent": map[string]any{"hostNetwork": true, "tolerations": []any{map[string]any{"key": "k", "operator": "Exists"}}}}, nothing, hubs},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object, given := byHub(t, hub(test.hub)), deploytest.AsInstalled(t, "ns", test.installed)
			want := test.want(t, object.DeepCopy(), given.DeepCopy())
			before := given.DeepCopy()
			keepInstalled(object, given)
			if diff := cmp.Diff(typed(t, want).Spec, typed(t, object).Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, given); diff != "" {
				t.Errorf("what is installed was changed:\n%s", diff)
			}
			again := object.DeepCopy()
			keepInstalled(again, given)
			if diff := cmp.Diff(object, again); diff != "" {
				t.Errorf("a second time changes something:\n%s", diff)
			}
		})
	}
}

// typed returns a Deployment as the API server decodes it, where an empty field equals a missing one.
func typed(t *testing.T, object *unstructured.Unstructured) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

func hubs(_ *testing.T, hub, _ *unstructured.Unstructured) *unstructured.Unstructured { return hub }

func admins(_ *testing.T, _, installed *unstructured.Unstructured) *unstructured.Unstructured {
	return installed
}

func setField(t *testing.T, object *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// Invalid Deployments do not cause a panic or a change.
func TestKeepInstalled_IgnoresInvalidDeployments(t *testing.T) {
	for name, odd := range map[string]map[string]any{
		"nothing":            {},
		"invalid containers": {"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": "none"}}}},
		"another container":  {"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x"}}}}}},
		"invalid variables":  {"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "fleet-agent", "env": []any{"x"}}}}}}},
		"invalid number":     {"spec": map[string]any{"replicas": "three"}},
		"invalid selector":   {"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": "x"}}}},
		"empty affinity":     {"spec": map[string]any{"replicas": int64(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			object := byHub(t, deploytest.AgentIn("ns"))
			want := object.DeepCopy()
			if replicas, found, err := unstructured.NestedInt64(odd, "spec", "replicas"); found && err == nil {
				setField(t, want, replicas, "spec", "replicas")
			}
			keepInstalled(object, &unstructured.Unstructured{Object: odd})
			if diff := cmp.Diff(want, object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			keepInstalled(&unstructured.Unstructured{Object: odd}, byHub(t, deploytest.AgentIn("ns"))) // and does not panic
		})
	}
}
