package agentchart_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func withBootstrap(v *importing.AgentValues) {
	v.Bootstrap = &protocol.Bootstrap{
		APIServerURL: "https://hub.example.com:6443", APIServerCA: []byte("-----BEGIN CERTIFICATE-----\n"),
		ClusterNamespace: "fleet-default", Token: "a.b.c", TokenName: "import-token-east",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}
}

func withConfig(v *importing.AgentValues) {
	v.Config = &config.Agent{
		Labels: map[string]string{"env": "dev"}, ClientID: "kskbsmnqrf4zv8bx27pndmghfxxz9mxpd8mtccqdmnrvdwzslrxzlv",
		AgentTLSMode: config.TLSModeSystemStore, GarbageCollectionInterval: metav1.Duration{Duration: 15 * time.Minute},
	}
}

func withScheduling(v *importing.AgentValues) {
	v.PriorityClass = &fleet.PriorityClassSpec{Value: 1000, PreemptionPolicy: corev1.PreemptNever}
	v.PodDisruptionBudget = &fleet.PodDisruptionBudgetSpec{MinAvailable: "50%"}
}

func inBundle(v *importing.AgentValues) { v.SchedulingInBundle = true }

func in(namespace string) func(*importing.AgentValues) {
	return func(v *importing.AgentValues) { v.Namespace, v.Scope = namespace, namespace }
}

// All agents of a cluster use the class: no agent may delete it with its Bundle.
func TestClassInABundle_IsKept(t *testing.T) {
	for _, object := range mustRender(t, settings(withScheduling, inBundle)) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		keeps := accessor.GetAnnotations()["helm.sh/resource-policy"] == "keep"
		if isClass := accessor.GetName() == agentchart.PriorityClass; keeps != isClass {
			t.Errorf("%s is kept: %v", accessor.GetName(), keeps)
		}
	}
}

// TestRenderOrder checks which objects each combination of settings renders, in the order of their application.
func TestRenderOrder(t *testing.T) {
	bundle := []string{
		"ClusterRole cattle-fleet-system-fleet-agent-role", "ClusterRoleBinding cattle-fleet-system-fleet-agent-role-binding",
		"ServiceAccount cattle-fleet-system/fleet-agent", "ServiceAccount cattle-fleet-system/default",
		"Deployment cattle-fleet-system/fleet-agent", "NetworkPolicy cattle-fleet-system/default-allow-all",
	}
	scheduling := []string{"PriorityClass fleet-agent-priority-class", "PodDisruptionBudget cattle-fleet-system/fleet-agent-pod-disruption-budget"}
	const secret, configMap = "Secret cattle-fleet-system/fleet-agent-bootstrap", "ConfigMap cattle-fleet-system/fleet-agent"
	tests := map[string]struct {
		in   importing.AgentValues
		want [][]string
	}{
		"the first import":                {settings(withBootstrap, withConfig), [][]string{{secret, configMap}, bundle}},
		"an import that keeps identities": {settings(withConfig), [][]string{{configMap}, bundle}},
		"the bundle":                      {settings(), [][]string{bundle}},
		"an import with scheduling":       {settings(withBootstrap, withConfig, withScheduling), [][]string{{secret, configMap}, scheduling, bundle}},
		"scheduling without an identity":  {settings(withConfig, withScheduling), [][]string{{configMap}, scheduling, bundle}},
		"the bundle only names the class": {settings(withScheduling), [][]string{bundle}},
		"the bundle contains the class":   {settings(withScheduling, inBundle), [][]string{scheduling, bundle}},
		"nothing to add to the bundle":    {settings(inBundle), [][]string{bundle}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want, got []string
			for _, part := range test.want {
				want = append(want, part...)
			}
			for _, object := range mustRender(t, test.in) {
				accessor, err := meta.Accessor(object)
				if err != nil {
					t.Fatal(err)
				}
				gvk := object.GetObjectKind().GroupVersionKind()
				if gvk.Version == "" {
					t.Errorf("%s has no apiVersion", gvk.Kind)
				}
				got = append(got, gvk.Kind+" "+strings.TrimPrefix(accessor.GetNamespace()+"/"+accessor.GetName(), "/"))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func mustRender(t *testing.T, v importing.AgentValues) []runtime.Object {
	t.Helper()
	rendered, err := agentchart.Render(v)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

func TestRender_MatchesTheGoldens(t *testing.T) {
	tests := map[string]importing.AgentValues{
		"import": settings(withBootstrap, withConfig),
		"everything": settings(withBootstrap, withConfig, withScheduling, in("team-a"), func(v *importing.AgentValues) {
			v.Replicas, v.Image, v.ImagePullPolicy = 3, "registry.example.com:5000/team/agent@sha256:0123", "Always"
			v.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "login"}}
			v.CheckinInterval, v.BundleDeploymentWorkers, v.DriftWorkers = "0s", "", ""
			v.LeaseDuration, v.RetryPeriod, v.RenewDeadline = "1m", "5s", "40s"
			v.Debug, v.DebugLevel, v.DisableSecurityContext, v.HostNetwork = true, 5, true, true
			v.Env = []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}, {Name: "EMPTY"}}
			v.Tolerations = []corev1.Toleration{{Key: "z"}, {Key: "a", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(0))}}
			v.Affinity, v.Resources = &corev1.Affinity{}, &corev1.ResourceRequirements{}
		}),
		"bundle-in-a-long-namespace": settings(in(strings.Repeat("long-", 12) + "x")),
	}
	for name, v := range tests {
		t.Run(name, func(t *testing.T) {
			var documents []string
			for _, object := range mustRender(t, v) {
				document, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, string(document))
			}
			golden.Expect(t, name+".golden", strings.Join(documents, "---\n"))
		})
	}
}

// TestRenderedImport_ContainsBootstrapSecretAndConfig reads back what the agent will read.
func TestRenderedImport_ContainsBootstrapSecretAndConfig(t *testing.T) {
	tests := map[string]func(*importing.AgentValues){
		"as recorded": func(*importing.AgentValues) {},
		"without a CA": func(v *importing.AgentValues) {
			v.Bootstrap.APIServerCA = []byte{}
		},
		"an empty configuration":   func(v *importing.AgentValues) { v.Config = &config.Agent{} },
		"labels that need quoting": func(v *importing.AgentValues) { v.Config.Labels = map[string]string{"a": `"<&>'`, "b": ""} },
		"mode strict, and an interval with fractions": func(v *importing.AgentValues) {
			v.Config.AgentTLSMode, v.Config.GarbageCollectionInterval.Duration = config.TLSModeStrict, 90*time.Second+5*time.Millisecond
		},
	}
	for name, modify := range tests {
		t.Run(name, func(t *testing.T) {
			v := settings(withBootstrap, withConfig, modify)
			rendered := mustRender(t, v)
			secret, ok := rendered[0].(*corev1.Secret)
			if !ok || secret.Name != names.AgentBootstrap {
				t.Fatalf("the first object is %T", rendered[0])
			}
			if diff := cmp.Diff(v.Bootstrap.Encode(), secret.Data); diff != "" {
				t.Errorf("Secret (-rules +chart):\n%s", diff)
			}
			configMap, ok := rendered[1].(*corev1.ConfigMap)
			if !ok || configMap.Name != names.Agent {
				t.Fatalf("the second object is %T", rendered[1])
			}
			want, err := v.Config.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{names.ConfigKey: want}, configMap.Data); diff != "" {
				t.Errorf("ConfigMap (-rules +chart):\n%s", diff)
			}
		})
	}
}

// TestRenderedConfigMap_MatchesTheRecording compares with the ConfigMap an import left on east.
func TestRenderedConfigMap_MatchesTheRecording(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "..", "testdata", "recorded", "east", "configmaps.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(document), "\n---\n")
	var recorded corev1.ConfigMap
	if err := yaml.Unmarshal([]byte(first), &recorded); err != nil {
		t.Fatal(err)
	}
	configMap, ok := mustRender(t, settings(withConfig))[0].(*corev1.ConfigMap)
	if !ok {
		t.Fatal("the first object is no ConfigMap")
	}
	if diff := cmp.Diff(recorded.Data, configMap.Data); diff != "" || recorded.Name != configMap.Name || recorded.Namespace != configMap.Namespace {
		t.Errorf("ConfigMap (-recorded +got):\n%s", diff)
	}
}

func TestRender_InvalidSettingsAreErrors(t *testing.T) {
	change := func(modify func(*importing.AgentValues)) importing.AgentValues {
		return settings(withBootstrap, withConfig, modify)
	}
	tests := map[string]struct {
		in   importing.AgentValues
		is   error
		text []string
	}{
		"an identity without a configuration": {in: settings(withBootstrap), is: agentchart.ErrBootstrapWithoutConfig},
		"minAvailable and maxUnavailable": {
			in: change(func(v *importing.AgentValues) {
				v.PodDisruptionBudget = &fleet.PodDisruptionBudgetSpec{MinAvailable: "1", MaxUnavailable: "1"}
			}),
			text: []string{"minAvailable is 1 and maxUnavailable is 1"},
		},
		"invalid limit": {
			in: change(func(v *importing.AgentValues) {
				v.PodDisruptionBudget = &fleet.PodDisruptionBudgetSpec{MinAvailable: "most"}
			}),
			text: []string{"checking the agent's settings", "/fleetAgent/podDisruptionBudget/minAvailable", "'most'"},
		},
		"a priority beyond 32 bits": {
			in:   change(func(v *importing.AgentValues) { v.PriorityClass = &fleet.PriorityClassSpec{Value: 1 << 40} }),
			text: []string{"/fleetAgent/priorityClass/value"},
		},
		"no leader election":            {in: change(func(v *importing.AgentValues) { v.LeaseDuration = "" }), text: []string{"/leaderElection/leaseDuration"}},
		"a check-in interval of 1":      {in: change(func(v *importing.AgentValues) { v.CheckinInterval = "1" }), text: []string{"/agentCheckinInterval", "'1'"}},
		"workers that are not a number": {in: change(func(v *importing.AgentValues) { v.DriftWorkers = "ten" }), text: []string{"/agent/reconciler/workers/drift", "'ten'"}},
		"an unknown pull policy":        {in: change(func(v *importing.AgentValues) { v.ImagePullPolicy = "Sometimes" }), text: []string{"/image/imagePullPolicy"}},
		"a variable without name":       {in: change(func(v *importing.AgentValues) { v.Env = []corev1.EnvVar{{Value: "x"}} }), text: []string{"/extraEnv/0"}},
		"no namespace":                  {in: change(func(v *importing.AgentValues) { v.Namespace = "" }), text: []string{"/internal/systemNamespace"}},
		"no token name":                 {in: change(func(v *importing.AgentValues) { v.Bootstrap.TokenName = "" }), text: []string{"rendering the agent's chart", "tokenName is required"}},
		"no address of the hub":         {in: change(func(v *importing.AgentValues) { v.Bootstrap.APIServerURL = "" }), text: []string{"apiServerURL is required"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := agentchart.Render(test.in)
			if err == nil || got != nil {
				t.Fatalf("it was rendered: %v %v", got, err)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v, want %v", err, test.is)
			}
			for _, text := range test.text {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not say %q:\n%v", text, err)
				}
			}
		})
	}
}

func TestManifest_InvalidSettingsAreErrors(t *testing.T) {
	if got, err := agentchart.Manifest(settings(func(v *importing.AgentValues) { v.RenewDeadline = "soon" })); err == nil || got != nil {
		t.Errorf("it was rendered: %s", got)
	}
}

// TestManifest_ContainsNoIdentity is why a token never gets into a Bundle, whoever calls.
func TestManifest_ContainsNoIdentity(t *testing.T) {
	with, err := agentchart.Manifest(settings(withBootstrap, withConfig))
	if err != nil {
		t.Fatal(err)
	}
	without, err := agentchart.Manifest(settings())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(without), string(with)); diff != "" {
		t.Errorf("the import's part got into the manifest:\n%s", diff)
	}
}

// TestRender_DoesNotModifyItsInput renders what it was given before once more, after the result was written to.
func TestRender_DoesNotModifyItsInput(t *testing.T) {
	v, same := settings(withBootstrap, withConfig, withScheduling, withLocalTolerations), settings(withBootstrap, withConfig, withScheduling, withLocalTolerations)
	first := mustRender(t, v)
	if diff := cmp.Diff(same, v); diff != "" {
		t.Fatalf("the input was written to:\n%s", diff)
	}
	again := mustRender(t, v)
	for _, object := range first {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		accessor.SetLabels(map[string]string{"written": "by the caller"})
	}
	if diff := cmp.Diff(again, mustRender(t, v)); diff != "" {
		t.Errorf("writing to one result changed another:\n%s", diff)
	}
}

// TestManifest_ConcurrentCallsAreIndependent renders for many clusters at a time, as imports do; each gets its own.
func TestManifest_ConcurrentCallsAreIndependent(t *testing.T) {
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			namespace := fmt.Sprintf("team-%d", i)
			got, err := agentchart.Manifest(settings(in(namespace)))
			if err != nil {
				t.Error(err)
				return
			}
			base, err := agentchart.Manifest(settings(in("team-x")))
			if err != nil {
				t.Error(err)
				return
			}
			if want := strings.ReplaceAll(string(base), "team-x", namespace); want != string(got) {
				t.Errorf("cluster %d got:\n%s", i, cmp.Diff(want, string(got)))
			}
		})
	}
	wait.Wait()
}

func TestLoad(t *testing.T) {
	for _, name := range []string{"fleet-crd", "fleet", "fleet-agent"} {
		loaded, err := agentchart.Load(charts.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Name() != name || len(loaded.Schema) == 0 || len(loaded.Templates) == 0 {
			t.Errorf("%s: name %q, %d bytes of schema, %d templates", name, loaded.Name(), len(loaded.Schema), len(loaded.Templates))
		}
	}
	for name, fsys := range map[string]fstest.MapFS{
		"no such folder":  {},
		"no Chart.yaml":   {"x/values.yaml": {Data: []byte("a: b\n")}},
		"no chart at all": {"x/Chart.yaml": {Data: []byte("[")}},
	} {
		if _, err := agentchart.Load(fsys, "x"); err == nil || !strings.Contains(err.Error(), "reading chart x") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
