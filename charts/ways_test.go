package charts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestInstallImportAndBundle_RenderTheSameDeployment passes the same settings to the chart fleet and the Cluster, and to the
// chart fleet-agent. The Deployments must be equal byte for byte, so that an agent does not restart when the hub imports
// it or when its Bundle adopts it.
func TestInstallImportAndBundle_RenderTheSameDeployment(t *testing.T) {
	tests := map[string]struct {
		hub     string
		cluster fleet.ClusterSpec
		install string
	}{
		"defaults": {},
		"image": {
			hub:     "agentImage: {repository: a/b, tag: c, imagePullPolicy: Always}",
			install: "image: {repository: a/b, tag: c, imagePullPolicy: Always}",
		},
		"no pull policy": {
			hub:     "agentImage: {imagePullPolicy: ''}",
			install: "image: {imagePullPolicy: ''}",
		},
		"registry and pull secrets": {
			hub:     "global: {cattle: {systemDefaultRegistry: r/, imagePullSecrets: [{name: a}]}}",
			install: "global: {cattle: {systemDefaultRegistry: r/, imagePullSecrets: [{name: a}]}}",
		},
		"pull secrets of the Cluster": {
			cluster: fleet.ClusterSpec{AgentPullSecrets: &[]corev1.LocalObjectReference{{Name: "own"}}},
			install: "global: {cattle: {imagePullSecrets: [{name: own}]}}",
		},
		"intervals and workers": {
			hub:     "agentCheckinInterval: 90s\nagent: {reconciler: {workers: {bundledeployment: 7, drift: '8'}}}",
			install: "agentCheckinInterval: 90s\nagent: {reconciler: {workers: {bundledeployment: 7, drift: '8'}}}",
		},
		"the agent's own check-in interval": {hub: "agentCheckinInterval: 0", install: "agentCheckinInterval: 0"},
		"replicas and leader election": {
			hub:     "agent: {replicas: 2, leaderElection: {leaseDuration: 90s, retryPeriod: 4s, renewDeadline: 1m}}",
			install: "agent: {replicas: 2}\nleaderElection: {leaseDuration: 90s, retryPeriod: 4s, renewDeadline: 1m}",
		},
		"debug":               {hub: "debug: true\ndebugLevel: 4", install: "debug: true\ndebugLevel: 4"},
		"no security context": {hub: "disableSecurityContext: true", install: "disableSecurityContext: true"},
		"environment": {
			cluster: fleet.ClusterSpec{AgentEnvVars: []corev1.EnvVar{
				{Name: "HTTPS_PROXY", Value: "http://p"}, {Name: "EMPTY"},
				{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}},
			}},
			install: "extraEnv: [{name: HTTPS_PROXY, value: http://p}, {name: EMPTY}, {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
		},
		"tolerations in any order": {
			cluster: fleet.ClusterSpec{AgentTolerations: []corev1.Toleration{
				{Key: "b", Operator: corev1.TolerationOpExists}, {Key: "a", Value: "1", TolerationSeconds: new(int64(3600000)), Effect: corev1.TaintEffectNoExecute},
			}},
			install: "fleetAgent: {tolerations: [{key: a, value: '1', tolerationSeconds: 3600000, effect: NoExecute}, {key: b, operator: Exists}]}",
		},
		"affinity": {
			cluster: fleet.ClusterSpec{AgentAffinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"system"}}},
				}}},
			}}},
			install: "fleetAgent: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [system]}]}]}}}}",
		},
		"no affinity": {cluster: fleet.ClusterSpec{AgentAffinity: &corev1.Affinity{}}, install: "fleetAgent: {affinity: {}}"},
		"resources": {
			cluster: fleet.ClusterSpec{AgentResources: new(resources("{requests: {cpu: 100m}, limits: {memory: 1Gi}}"))},
			install: "fleetAgent: {resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}}",
		},
		"host network": {cluster: fleet.ClusterSpec{HostNetwork: new(true)}, install: "fleetAgent: {hostNetwork: true}"},
		"scheduling": {
			cluster: fleet.ClusterSpec{AgentSchedulingCustomization: &fleet.AgentSchedulingCustomization{
				PriorityClass:       &fleet.PriorityClassSpec{Value: 7, PreemptionPolicy: corev1.PreemptNever},
				PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
			}},
			install: "fleetAgent: {priorityClass: {value: 7, preemptionPolicy: Never}, podDisruptionBudget: {maxUnavailable: '1'}}",
		},
		"another namespace and scope": {
			cluster: fleet.ClusterSpec{AgentNamespace: "team-a"},
			install: "internal: {systemNamespace: team-a}\nfleetAgent: {scope: team-a}",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := settingsOf(t, test.hub, test.cluster)
			install := release{chart: "fleet-agent", name: "fleet-agent", namespace: values.Namespace, values: tokenValues + test.install + "\n"}
			want := text(t, parse[appsv1.Deployment](t, mustRender(t, install)["deployment.yaml"]))

			values.Config = &config.Agent{ClientID: "c", Labels: map[string]string{"a": "b"}}
			expectDeployment(t, "reimport", want, values)
			values.Bootstrap = &protocol.Bootstrap{APIServerURL: "https://hub", TokenName: "t"}
			expectDeployment(t, "import", want, values)
			values.Config, values.Bootstrap = nil, nil
			expectDeployment(t, "bundle", want, values)
		})
	}
}

// settingsOf returns the agent settings that the controllers of a hub with these values compute for a Cluster.
func settingsOf(t *testing.T, hub string, spec fleet.ClusterSpec) importing.AgentValues {
	t.Helper()
	document := parse[corev1.ConfigMap](t, mustRender(t, controllers(hub))["configmap.yaml"]).Data[names.ConfigKey]
	conf, _, err := config.Parse([]byte(document), config.Default("other"))
	if err != nil {
		t.Fatal(err)
	}
	told := controllerOptions(t, hub)
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "east"}, Spec: spec}
	return importing.AgentSettings(cluster, conf, importing.AgentDefaults{
		Replicas: told.Agent.Replicas, LeaseDuration: told.Agent.LeaseDuration, RetryPeriod: told.Agent.RetryPeriod, RenewDeadline: told.Agent.RenewDeadline,
		Debug: told.Debug && told.Agent.PropagateDebug, DebugLevel: told.DebugLevel, DisableSecurityContext: told.Agent.DisableSecurityContext,
	}, clusters.Namespaces{System: "cattle-fleet-system", Registration: "cattle-fleet-clusters-system"})
}

func expectDeployment(t *testing.T, way, want string, values importing.AgentValues) {
	t.Helper()
	rendered, err := agentchart.Render(values)
	if err != nil {
		t.Fatalf("%s: %v", way, err)
	}
	for _, object := range rendered {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			if diff := cmp.Diff(want, text(t, *deployment)); diff != "" {
				t.Errorf("the Deployment of %s differs (-install +%s):\n%s", way, way, diff)
			}
			return
		}
	}
	t.Errorf("%s has no Deployment", way)
}

func text(t *testing.T, deployment appsv1.Deployment) string {
	t.Helper()
	encoded, err := yaml.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
