package charts_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/version"
)

// tokenValues are the values from the Secret of a token.
const tokenValues = `
apiServerCA: |
  -----BEGIN CERTIFICATE-----
apiServerURL: https://hub.example.com:6443
clusterNamespace: fleet-default
systemRegistrationNamespace: cattle-fleet-clusters-system
token: eyJ.bearer.token
tokenName: swarm
`

// agent returns the release of `helm install fleet-agent --namespace cattle-fleet-system --values token.yaml --values more`.
func agent(more string) release {
	return release{chart: "fleet-agent", name: "fleet-agent", namespace: "cattle-fleet-system", values: tokenValues + more}
}

// agentReleases returns releases that together use all of the agent's chart.
func agentReleases() map[string]release {
	return map[string]release{
		"defaults": agent(""),
		"everything": agent(`
clientID: swarm-1
labels: {env: prod, "zone": "<a&b>"}
agentTLSMode: strict
garbageCollectionInterval: 1h30m
agentCheckinInterval: 90s
agent: {replicas: 3, reconciler: {workers: {bundledeployment: 10, drift: "20"}}}
leaderElection: {leaseDuration: 1m, retryPeriod: 5s, renewDeadline: 40s}
debug: true
debugLevel: 5
proxy: http://proxy:3128
noProxy: 10.0.0.0/8
image: {repository: team/agent, tag: v1.2.3, imagePullPolicy: Always}
extraEnv: [{name: LOG, value: json}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
fleetAgent:
  scope: team-a
  nodeSelector: {pool: system}
  tolerations: [{key: z, operator: Exists}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]
  hostNetwork: true
  resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
  priorityClass: {value: 1000, preemptionPolicy: Never}
  podDisruptionBudget: {maxUnavailable: 25%}
global: {cattle: {systemDefaultRegistry: registry.example.com/, imagePullSecrets: [{name: login}], clusterId: c-1}}
`),
		"other-namespace": {
			chart: "fleet-agent", name: "agent", namespace: "teams-fleet",
			values: tokenValues + "internal: {systemNamespace: teams-fleet, managedReleaseName: agent}\n",
		},
		"without-security-context": agent("disableSecurityContext: true\n"),
		"without-token":            {chart: "fleet-agent", name: "fleet-agent", namespace: "cattle-fleet-system", values: "tokenName: t\napiServerURL: https://hub\n"},
		"bundle":                   agent("internal: {deployment: bundle}\nfleetAgent: {priorityClass: {value: 1}, podDisruptionBudget: {}}\n"),
		"import":                   agent("internal: {deployment: import, image: registry/agent@sha256:0123}\n"),
		"reimport":                 {chart: "fleet-agent", name: "fleet-agent", namespace: "cattle-fleet-system", values: "internal: {deployment: reimport}\n"},
	}
}

func TestAgentGolden(t *testing.T) {
	for name, r := range agentReleases() {
		t.Run(name, func(t *testing.T) {
			golden.Expect(t, "fleet-agent/"+name+".golden", one(mustRender(t, r)))
		})
	}
}

func TestAgentChart_RefusesInvalidValues(t *testing.T) {
	tests := map[string]struct {
		in   release
		want []string
	}{
		"wrong namespace": {
			in: release{chart: "fleet-agent", name: "fleet-agent", namespace: "default", values: tokenValues},
			want: []string{
				`fleet-agent must be installed in namespace "cattle-fleet-system", not in "default"`,
				"--namespace cattle-fleet-system --create-namespace", "internal.systemNamespace",
			},
		},
		"hub with another system namespace: wrong namespace": {
			in: release{
				chart: "fleet-agent", name: "fleet-agent", namespace: "cattle-fleet-system",
				values: tokenValues + "internal: {systemNamespace: teams-fleet}\n",
			},
			want: []string{`must be installed in namespace "teams-fleet"`},
		},
		"wrong release name": {
			in:   release{chart: "fleet-agent", name: "agent", namespace: "cattle-fleet-system", values: tokenValues},
			want: []string{`must have the name "fleet-agent", not "agent"`, "helm install fleet-agent CHART --namespace cattle-fleet-system"},
		},
		"values of a token are missing": {
			in:   release{chart: "fleet-agent", name: "fleet-agent", namespace: "cattle-fleet-system"},
			want: []string{"apiServerURL is required", "fleet token show TOKEN -n WORKSPACE --with-secret", "chart fleet"},
		},
		"URL with http":        {in: agent("apiServerURL: http://hub.example.com\n"), want: []string{"apiServerURL has to be an https URL"}},
		"URL without a scheme": {in: agent("apiServerURL: hub.example.com:6443\n"), want: []string{"apiServerURL has to be an https URL"}},
		"no tokenName": {
			in: release{
				chart: "fleet-agent", name: "fleet-agent", namespace: "cattle-fleet-system",
				values: "apiServerURL: https://hub.example.com\n",
			},
			want: []string{"tokenName is required", "--format values > token.yaml"},
		},
		"minAvailable and maxUnavailable": {
			in:   agent("fleetAgent: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 50%}}\n"),
			want: []string{"minAvailable is 1 and maxUnavailable is 50%", "leave one empty"},
		},
		"an unknown key":                   {in: agent("tokenname: x\n"), want: []string{"additional properties 'tokenname' not allowed"}},
		"an unknown key below fleetAgent":  {in: agent("fleetAgent: {nodeselector: {}}\n"), want: []string{"/fleetAgent", "'nodeselector' not allowed"}},
		"an unknown key of a toleration":   {in: agent("fleetAgent: {tolerations: [{keys: x}]}\n"), want: []string{"/fleetAgent/tolerations/0", "'keys' not allowed"}},
		"a duration in days":               {in: agent("garbageCollectionInterval: 1d\n"), want: []string{"/garbageCollectionInterval", "'1d' does not match pattern"}},
		"a duration with a sign":           {in: agent("agentCheckinInterval: -15m\n"), want: []string{"/agentCheckinInterval", "'-15m' does not match pattern"}},
		"a bare number as duration":        {in: agent("agentCheckinInterval: 900\n"), want: []string{"/agentCheckinInterval", "got number, want null or string", "value must be 0"}},
		"an empty duration":                {in: agent("leaderElection: {leaseDuration: ''}\n"), want: []string{"/leaderElection/leaseDuration"}},
		"an unknown TLS mode":              {in: agent("agentTLSMode: none\n"), want: []string{"/agentTLSMode", "'system-store', 'strict'"}},
		"a label that is no text":          {in: agent("labels: {prod: true}\n"), want: []string{"/labels/prod", "got boolean, want string"}},
		"a number of workers that is text": {in: agent("agent: {reconciler: {workers: {drift: many}}}\n"), want: []string{"/agent/reconciler/workers/drift", "'many'"}},
		"no workers":                       {in: agent("agent: {reconciler: {workers: {drift: 0}}}\n"), want: []string{"/agent/reconciler/workers/drift"}},
		"workers above 999999":             {in: agent("agent: {reconciler: {workers: {bundledeployment: 1000000}}}\n"), want: []string{"/agent/reconciler/workers/bundledeployment", "maximum"}},
		"replicas as text":                 {in: agent("agent: {replicas: '1'}\n"), want: []string{"/agent/replicas", "got string, want integer"}},
		"a limit that is no number":        {in: agent("fleetAgent: {podDisruptionBudget: {minAvailable: some}}\n"), want: []string{"/minAvailable", "'some'"}},
		"an unknown way of deploying":      {in: agent("internal: {deployment: magic}\n"), want: []string{"/internal/deployment", "'bundle'"}},
		"a variable without a name":        {in: agent("extraEnv: [{value: x}]\n"), want: []string{"/extraEnv/0", "missing property 'name'"}},
		"a pull policy misspelt":           {in: agent("image: {imagePullPolicy: ifnotpresent}\n"), want: []string{"/image/imagePullPolicy", "'IfNotPresent'"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectRefused(t, test.in, test.want...)
		})
	}
}

// expectRefused expects an error that contains all texts.
func expectRefused(t *testing.T, r release, texts ...string) {
	t.Helper()
	_, err := render(t, r)
	if err == nil {
		t.Fatal("it was rendered")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not say %q:\n%v", text, err)
		}
	}
}

func TestAgentChart_AcceptsValuesOfOtherReleases(t *testing.T) {
	plain := mustRender(t, agent(""))
	more := mustRender(t, agent("kubectl: {image: {repository: rancher/kubectl, tag: v1}}\nimage: {os: 'windows,linux'}\n"))
	if diff := cmp.Diff(plain, more); diff != "" {
		t.Errorf("ignored values changed something:\n%s", diff)
	}
}

// TestAgentRoleNames_EqualTheNamesInGo compares the names that the template builds with names.SafeConcat.
func TestAgentRoleNames_EqualTheNamesInGo(t *testing.T) {
	tests := map[string]string{
		"a short namespace": "cattle-fleet-system",
		"longest namespace whose role name is not truncated": strings.Repeat("a", 63-len("-fleet-agent-role")),
		"one character more: role name is truncated":         strings.Repeat("a", 64-len("-fleet-agent-role")),
		"only the name of the binding is truncated":          strings.Repeat("a", 40),
		"longest namespace":                                  strings.Repeat("a", 63),
		"the 57th character of the role is a dash":           strings.Repeat("a", 56) + "-" + "bbbbbb",
		"the 57th character of the role is the joining dash": strings.Repeat("a", 56),
	}
	for name, namespace := range tests {
		t.Run(name, func(t *testing.T) {
			files := mustRender(t, release{
				chart: "fleet-agent", name: "fleet-agent", namespace: namespace,
				values: tokenValues + "internal: {systemNamespace: " + namespace + "}\n",
			})
			documents := strings.Split(files["rbac.yaml"], "\n---\n")
			role, binding := parse[rbacv1.ClusterRole](t, documents[0]), parse[rbacv1.ClusterRoleBinding](t, documents[1])
			got := []string{role.Name, binding.Name, binding.RoleRef.Name}
			want := []string{
				names.SafeConcat(namespace, "fleet-agent", "role"),
				names.SafeConcat(namespace, "fleet-agent", "role", "binding"),
				names.SafeConcat(namespace, "fleet-agent", "role"),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentBootstrapSecret_IsReadableByTheAgent(t *testing.T) {
	secret := parse[corev1.Secret](t, mustRender(t, agent(""))["secret.yaml"])
	got, err := protocol.ParseBootstrap(secret.Data)
	if err != nil {
		t.Fatal(err)
	}
	want := protocol.Bootstrap{
		APIServerURL: "https://hub.example.com:6443", APIServerCA: []byte("-----BEGIN CERTIFICATE-----\n"),
		ClusterNamespace: "fleet-default", Token: "eyJ.bearer.token", TokenName: "swarm",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bootstrap (-want +got):\n%s", diff)
	}
}

// TestAgentChart_AcceptsTokenValues renders the chart with the hub's values of a token, and reads the bootstrap Secret as
// the agent does.
func TestAgentChart_AcceptsTokenValues(t *testing.T) {
	tests := map[string]protocol.Values{
		"a hub in the usual namespace": {
			ClusterNamespace: "fleet-default", APIServerURL: "https://hub", APIServerCA: "-----BEGIN-----\nx\n", Token: "t.t.t",
			SystemRegistrationNamespace: "cattle-fleet-clusters-system", TokenName: "swarm", SystemNamespace: "cattle-fleet-system",
		},
		"a hub in another namespace": {
			ClusterNamespace: "teams", APIServerURL: "https://hub", Token: "t.t.t",
			SystemRegistrationNamespace: "fleet-clusters-system", TokenName: "swarm", SystemNamespace: "fleet-system",
		},
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) {
			document, err := values.Encode()
			if err != nil {
				t.Fatal(err)
			}
			files := mustRender(t, release{chart: "fleet-agent", name: "fleet-agent", namespace: values.SystemNamespace, values: string(document)})
			got, err := protocol.ParseBootstrap(parse[corev1.Secret](t, files["secret.yaml"]).Data)
			if err != nil {
				t.Fatal(err)
			}
			want := protocol.Bootstrap{
				APIServerURL: values.APIServerURL, APIServerCA: []byte(values.APIServerCA), ClusterNamespace: values.ClusterNamespace,
				Token: values.Token, TokenName: values.TokenName, SystemRegistrationNamespace: values.SystemRegistrationNamespace,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("bootstrap (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentConfig_IsReadableByTheAgent(t *testing.T) {
	tests := map[string]struct{ values, want string }{
		"defaults":          {values: "", want: `{"agentTLSMode":"system-store","garbageCollectionInterval":"15m0s"}`},
		"empty values":      {values: "agentTLSMode: ''\ngarbageCollectionInterval: 0\n", want: `{}`},
		"zero as a string":  {values: "garbageCollectionInterval: '0'\n", want: `{"agentTLSMode":"system-store"}`},
		"labels in order":   {values: "labels: {b: '2', a: '1'}\nclientID: c\n", want: `{"labels":{"a":"1","b":"2"},"clientID":"c","agentTLSMode":"system-store","garbageCollectionInterval":"15m0s"}`},
		"quotes in a label": {values: "labels: {a: 'say \"x\" \\ <y>'}\nagentTLSMode: strict\ngarbageCollectionInterval: 1.5h\n", want: `{"labels":{"a":"say \"x\" \\ \u003cy\u003e"},"agentTLSMode":"strict","garbageCollectionInterval":"1h30m0s"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := parse[corev1.ConfigMap](t, mustRender(t, agent(test.values))["configmap.yaml"]).Data[names.ConfigKey]
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			parsed, warnings, err := config.ParseAgent(got)
			if err != nil || len(warnings) > 0 {
				t.Fatalf("the agent cannot read it: %v %q", err, warnings)
			}
			if again, err := parsed.Encode(); err != nil || again != test.want {
				t.Errorf("the agent reads %s (%v)", again, err)
			}
		})
	}
}

func TestAgentValues_ChangeTheDeployment(t *testing.T) {
	tests := map[string]struct {
		values string
		// change changes the Deployment of the defaults.
		change func(d *appsv1.Deployment, pod *corev1.PodSpec, c *corev1.Container)
	}{
		"image": {"image: {repository: a/b, tag: c, imagePullPolicy: Never}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Image, c.ImagePullPolicy = "a/b:c", corev1.PullNever
		}},
		"a registry": {"global: {cattle: {systemDefaultRegistry: 'r:5000'}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Image = "r:5000/fleethub/fleet-agent:" + version.Version
		}},
		"no pull policy": {"image: {imagePullPolicy: ''}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.ImagePullPolicy = "" }},
		"pull secrets": {"global: {cattle: {imagePullSecrets: [{name: a}, {name: b}]}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}
		}},
		"several replicas: spread over nodes": {"agent: {replicas: 2}", func(d *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Replicas = new(int32(2))
			p.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "fleet-agent"}},
				}}},
			}
		}},
		"several replicas and an affinity: the affinity is used": {"agent: {replicas: 2}\nfleetAgent: {affinity: {}}", func(d *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Replicas, p.Affinity = new(int32(2)), &corev1.Affinity{}
		}},
		"workers": {"agent: {reconciler: {workers: {bundledeployment: 7, drift: '8'}}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env[0].Value, c.Env[1].Value = "7", "8"
		}},
		"empty workers: the default of the program": {"agent: {reconciler: {workers: {bundledeployment: '', drift: ''}}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env[0].Value, c.Env[1].Value = "", ""
		}},
		"scope": {"fleetAgent: {scope: team-a}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Env[3].Value = "team-a" }},
		"check-in interval: in the notation of the hub":       {"agentCheckinInterval: 60m", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Env[4].Value = "1h0m0s" }},
		"check-in interval of zero: the default of the agent": {"agentCheckinInterval: 0", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Env[4].Value = "0s" }},
		"leader election: in the notation of the values": {"leaderElection: {leaseDuration: 90s, retryPeriod: 0, renewDeadline: 1m}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env[5].Value, c.Env[6].Value, c.Env[7].Value = "90s", "0", "1m"
		}},
		"proxy": {"proxy: http://p\nnoProxy: .svc", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "HTTP_PROXY", Value: "http://p"}, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://p"}, corev1.EnvVar{Name: "NO_PROXY", Value: ".svc"})
		}},
		"noProxy alone: no effect": {"noProxy: .svc", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
		"extraEnv": {"extraEnv: [{name: B, value: '2'}, {name: A}]", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "B", Value: "2"}, corev1.EnvVar{Name: "A"})
		}},
		"extraEnv: the last entry of a name replaces earlier ones and the chart's": {"extraEnv: [{name: A, value: '1'}, {name: CHECKIN_INTERVAL, value: 5s}, {name: A, value: '2'}]", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(slices.Delete(c.Env, 4, 5), corev1.EnvVar{Name: "CHECKIN_INTERVAL", Value: "5s"}, corev1.EnvVar{Name: "A", Value: "2"})
		}},
		"debug": {"debug: true\ndebugLevel: 3", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Command = append(c.Command, "--debug", "--debug-level", "3")
		}},
		"debug level alone: no effect": {"debugLevel: 3", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
		"no security context": {"disableSecurityContext: true", func(_ *appsv1.Deployment, p *corev1.PodSpec, c *corev1.Container) {
			p.SecurityContext, c.SecurityContext = nil, nil
		}},
		"a node selector":                       {"fleetAgent: {nodeSelector: {a: b}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.NodeSelector["a"] = "b" }},
		"selector for Linux: cannot be changed": {"fleetAgent: {nodeSelector: {kubernetes.io/os: windows}}", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
		"host network: strategy Recreate": {"fleetAgent: {hostNetwork: true}", func(d *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.HostNetwork, d.Spec.Strategy.Type = true, appsv1.RecreateDeploymentStrategyType
		}},
		"no affinity": {"fleetAgent: {affinity: {}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.Affinity = &corev1.Affinity{} }},
		"affinity: replaces the default": {"fleetAgent: {affinity: {podAffinity: {}}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		}},
		"null affinity: the default": {"fleetAgent: {affinity: null}", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
		"a priority class": {"fleetAgent: {priorityClass: {value: 5}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.PriorityClassName = "fleet-agent-priority-class"
		}},
		"an empty priority class": {"fleetAgent: {priorityClass: {}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.PriorityClassName = "fleet-agent-priority-class"
		}},
		"disruption budget: no effect on the Deployment": {"fleetAgent: {podDisruptionBudget: {}}", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
		"tolerations are sorted by key, value, operator, effect, seconds": {
			`fleetAgent: {tolerations: [{key: b}, {key: a, value: "2"}, {key: a, value: "1", effect: NoSchedule}, {key: a, value: "1", effect: NoExecute, tolerationSeconds: 20}, {key: a, value: "1", effect: NoExecute, tolerationSeconds: 3}, {key: a, value: "1", effect: NoExecute}, {operator: Exists}, {key: b}]}`,
			func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
				p.Tolerations = append(p.Tolerations,
					corev1.Toleration{Operator: corev1.TolerationOpExists},
					corev1.Toleration{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute},
					corev1.Toleration{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(3))},
					corev1.Toleration{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(20))},
					corev1.Toleration{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule},
					corev1.Toleration{Key: "a", Value: "2"},
					corev1.Toleration{Key: "b"}, corev1.Toleration{Key: "b"},
				)
			},
		},
		"values of the ConfigMap: no effect on the Deployment": {"labels: {a: b}\nclientID: c\nagentTLSMode: strict\ngarbageCollectionInterval: 1h", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := parse[appsv1.Deployment](t, mustRender(t, agent(""))["deployment.yaml"])
			pod := &want.Spec.Template.Spec
			test.change(&want, pod, &pod.Containers[0])
			got := parse[appsv1.Deployment](t, mustRender(t, agent(test.values+"\n"))["deployment.yaml"])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Deployment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentScheduling(t *testing.T) {
	const budget = `---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: fleet-agent-pod-disruption-budget
  namespace: cattle-fleet-system
spec:
  %s
  selector:
    matchLabels:
      app: fleet-agent`
	class := func(lines ...string) string {
		return strings.Join(append([]string{
			"apiVersion: scheduling.k8s.io/v1", "kind: PriorityClass", "metadata:", "  name: fleet-agent-priority-class",
			"description: Priority class for Fleet Agent",
		}, lines...), "\n")
	}
	limit := func(line string) string { return strings.Replace(budget, "%s", line, 1) }
	tests := map[string]struct{ fleetAgent, want string }{
		"no settings: no objects":       {"{}", ""},
		"nulls: no objects":             {"{priorityClass: null, podDisruptionBudget: null}", ""},
		"a class":                       {"{priorityClass: {value: 7}}", class("value: 7")},
		"a big class":                   {"{priorityClass: {value: 1000000000, preemptionPolicy: Never}}", class("preemptionPolicy: Never", "value: 1000000000")},
		"a negative class":              {"{priorityClass: {value: -5}}", class("value: -5")},
		"an empty class":                {"{priorityClass: {}}", class("value: 0")},
		"an empty budget":               {"{podDisruptionBudget: {}}", limit("maxUnavailable: 0")},
		"min":                           {"{podDisruptionBudget: {minAvailable: '1'}}", limit("minAvailable: 1")},
		"min as a number":               {"{podDisruptionBudget: {minAvailable: 2}}", limit("minAvailable: 2")},
		"max as a percentage":           {"{podDisruptionBudget: {maxUnavailable: 25%}}", limit(`maxUnavailable: "25%"`)},
		"zero minAvailable: left out":   {"{podDisruptionBudget: {minAvailable: '0', maxUnavailable: '1'}}", limit("maxUnavailable: 1")},
		"zero maxUnavailable: left out": {"{podDisruptionBudget: {minAvailable: 50%, maxUnavailable: 0}}", limit(`minAvailable: "50%"`)},
		"both zero: maxUnavailable 0":   {"{podDisruptionBudget: {minAvailable: '0', maxUnavailable: 0%}}", limit("maxUnavailable: 0")},
		"both":                          {"{priorityClass: {value: 7}, podDisruptionBudget: {minAvailable: '1'}}", class("value: 7") + "\n" + limit("minAvailable: 1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.TrimSpace(mustRender(t, agent("fleetAgent: "+test.fleetAgent+"\n"))["priority.yaml"])
			if diff := cmp.Diff(strings.TrimSpace(strings.TrimPrefix(test.want, "---")), strings.TrimSpace(strings.TrimPrefix(got, "---"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentObjects_DependOnTheInstallationMethod(t *testing.T) {
	always := []string{"ClusterRole/cattle-fleet-system-fleet-agent-role", "ClusterRoleBinding/cattle-fleet-system-fleet-agent-role-binding", "Deployment/fleet-agent", "NetworkPolicy/default-allow-all", "ServiceAccount/fleet-agent"}
	scheduling := []string{"PriorityClass/fleet-agent-priority-class", "PodDisruptionBudget/fleet-agent-pod-disruption-budget"}
	tests := map[string][]string{
		// The last two Secrets and the Lease are only there to be removed with the release.
		"install":  append([]string{"Secret/fleet-agent-bootstrap", "ConfigMap/fleet-agent", "Secret/fleet-agent", "Secret/fleet-agent-recovery-cattle-fleet-system", "Secret/fleet-agent-release-key", "Lease/fleet-agent"}, scheduling...),
		"import":   append([]string{"Secret/fleet-agent-bootstrap", "ConfigMap/fleet-agent", "ServiceAccount/default"}, scheduling...),
		"reimport": append([]string{"ConfigMap/fleet-agent", "ServiceAccount/default"}, scheduling...),
		"bundle":   {"ServiceAccount/default"},
	}
	for way, also := range tests {
		t.Run(way, func(t *testing.T) {
			files := mustRender(t, agent("internal: {deployment: "+way+"}\nfleetAgent: {priorityClass: {}, podDisruptionBudget: {}}\n"))
			delete(files, "NOTES.txt")
			got := map[string]bool{}
			for _, document := range strings.Split(one(files), "\n---") {
				o := parse[struct {
					Kind     string
					Metadata struct{ Name, Namespace string }
				}](t, strings.TrimPrefix(document, "---"))
				if o.Kind != "" {
					got[o.Kind+"/"+o.Metadata.Name] = true
				}
			}
			want := map[string]bool{}
			for _, key := range append(also, always...) {
				want[key] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAgentToken_IsOnlyInTheSecret looks for the token in all other files, including the notes.
func TestAgentToken_IsOnlyInTheSecret(t *testing.T) {
	files := mustRender(t, agent(""))
	delete(files, "secret.yaml")
	for _, secret := range []string{"eyJ.bearer.token", base64.StdEncoding.EncodeToString([]byte("eyJ.bearer.token"))} {
		if strings.Contains(one(files), secret) {
			t.Errorf("%s is in more than the Secret", secret)
		}
	}
}

// parse decodes a document.
func parse[T any](t *testing.T, document string) T {
	t.Helper()
	var into T
	if err := yaml.Unmarshal([]byte(document), &into); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return into
}
