package charts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestAgentAdoptedByHub_IsNotRestarted applies the same settings with helm install, helm upgrade and the hub's import.
// The Deployment keeps its generation, so no pod is replaced.
func TestAgentAdoptedByHub_IsNotRestarted(t *testing.T) {
	hub := control.Plane(t).Hub
	client, err := kubernetes.NewForConfig(hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	const namespace = "hands-fleet"
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(tokenValues+"internal: {systemNamespace: "+namespace+"}\nfleetAgent: {scope: "+namespace+"}\n"), &values); err != nil {
		t.Fatal(err)
	}
	release := helm.Release{Config: hub.Config(), Chart: "fleet-agent", Name: "fleet-agent", Namespace: namespace, Values: values}
	if err := release.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	installed := deploymentIn(t, client, namespace)

	// The agent deletes the Secret when it has registered; an upgrade brings it back.
	secrets := client.CoreV1().Secrets(namespace)
	if err := secrets.Delete(t.Context(), names.AgentBootstrap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := release.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	secret, err := secrets.Get(t.Context(), names.AgentBootstrap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.ParseBootstrap(secret.Data); err != nil {
		t.Error(err)
	}
	expectSame(t, "helm upgrade", installed, deploymentIn(t, client, namespace))

	applyAsTheHub(t, hub.Config(), settingsOf(t, "", fleet.ClusterSpec{AgentNamespace: namespace}))
	expectSame(t, "the hub's apply", installed, deploymentIn(t, client, namespace))
	account, err := client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Error("after the hub's apply the account default still has its token mounted")
	}
}

// applyAsTheHub applies the agent's objects like an import of an agent that keeps its identity.
func applyAsTheHub(t *testing.T, cluster *rest.Config, settings importing.AgentValues) {
	t.Helper()
	settings.Config = &config.Agent{AgentTLSMode: config.TLSModeSystemStore}
	rendered, err := agentchart.Render(settings)
	if err != nil {
		t.Fatal(err)
	}
	downstream, err := foreign.New(cluster)
	if err != nil {
		t.Fatal(err)
	}
	defer downstream.Close()
	if err := downstream.Apply(t.Context(), rendered...); err != nil {
		t.Fatal(err)
	}
}

func deploymentIn(t *testing.T, client kubernetes.Interface, namespace string) *appsv1.Deployment {
	t.Helper()
	found, err := client.AppsV1().Deployments(namespace).Get(t.Context(), names.Agent, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func expectSame(t *testing.T, after string, before, now *appsv1.Deployment) {
	t.Helper()
	if before.UID != now.UID || before.Generation != now.Generation {
		t.Errorf("after %s the Deployment is of generation %d, was %d:\n%s", after, now.Generation, before.Generation, cmp.Diff(before.Spec, now.Spec))
	}
}
