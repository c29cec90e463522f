package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// workloadName is the name of the Bundle that all agents deploy, and of its objects.
const workloadName = "workload"

const workloadConfigMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: workload
data:
  edition: %q
`

const workloadDeployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: workload
spec:
  selector:
    matchLabels: {app: workload}
  template:
    metadata:
      labels: {app: workload}
    spec:
      containers:
      - name: pause
        image: pause
`

// traces are what is left of everything that an agent has deployed, by the namespace of its workload: the UID of each
// object, and what changes with each update of its content or restart of its pod.
type traces map[string]map[string]bool

// workloads finds out whether the workloads of agents were restarted.
type workloads struct {
	hub  *hub
	seen traces
}

// workloadNamespace returns the namespace of an agent's workload. It differs from the agent's own namespace.
func workloadNamespace(agent string) string { return agent + "-" + workloadName }

// createWorkloads creates the Bundle for agents that join later.
func (h *hub) createWorkloads(ctx context.Context, agents int) error {
	bundle := &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: workloadName},
		Spec:       fleet.BundleSpec{Resources: workloadOf("first")},
	}
	for i := range agents {
		name := h.agentName(i)
		bundle.Spec.Targets = append(bundle.Spec.Targets, fleet.BundleTarget{
			Name: name, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{agentLabel: name}},
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: workloadNamespace(name)},
		})
	}
	return h.Hub.Create(ctx, client.Bundles, bundle)
}

func workloadOf(edition string) []fleet.BundleResource {
	return []fleet.BundleResource{
		{Name: "configmap.yaml", Content: fmt.Sprintf(workloadConfigMap, edition)},
		{Name: "deployment.yaml", Content: workloadDeployment},
	}
}

// await waits until the pods of these agents' workloads are ready, and remembers the workloads.
func (w *workloads) await(t *testing.T, agents []*agent) {
	t.Helper()
	for _, a := range agents {
		_, err := client.Until(t.Context(), client.Await{
			From: w.hub.west.CoreV1().RESTClient(), Resource: "pods", Namespace: workloadNamespace(a.name),
			For: "the workload of agent " + a.name, Within: patience,
		}, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
		if err != nil {
			t.Fatal(err)
		}
	}
	now := w.look(t)
	for _, a := range agents {
		w.seen[workloadNamespace(a.name)] = now[workloadNamespace(a.name)]
	}
}

// restarted returns how many of these agents' workloads differ from the last call. One that is restarted later counts
// in the next call.
func (w *workloads) restarted(t *testing.T, agents []*agent) (count int) {
	t.Helper()
	now := w.look(t)
	for _, a := range agents {
		namespace := workloadNamespace(a.name)
		if before := w.seen[namespace]; len(before) == 0 || !maps.Equal(before, now[namespace]) {
			t.Errorf("the workload of agent %s was changed: %s", a.name, differs(before, now[namespace]))
			count++
		}
		w.seen[namespace] = now[namespace]
	}
	return count
}

// expectUpdate changes the Bundle, and waits until each agent has updated its workload: all agents still do their work,
// with one new revision of the release, and the pods are the same.
func (w *workloads) expectUpdate(t *testing.T) {
	t.Helper()
	var bundle fleet.Bundle
	h := w.hub
	err := h.Hub.Get(t.Context(), client.Bundles, framework.Workspace, workloadName, &bundle)
	if err == nil {
		bundle.Spec.Resources = workloadOf("second")
		err = h.Hub.Fleet.Put().Namespace(framework.Workspace).Resource(client.Bundles).Name(workloadName).Body(&bundle).Do(t.Context()).Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range h.agents {
		_, err := client.Until(t.Context(), client.Await{
			From: h.west.CoreV1().RESTClient(), Resource: "configmaps", Namespace: workloadNamespace(a.name), Name: workloadName,
			For: "the new content of the Bundle", Within: patience,
		}, func(c *corev1.ConfigMap) bool { return c.Data["edition"] == "second" })
		if err != nil {
			t.Fatal(err)
		}
	}
	now := w.look(t)
	for namespace, before := range w.seen {
		added, gone := missing(now[namespace], before), missing(before, now[namespace])
		isConfigMap := func(text string) bool { return strings.HasPrefix(text, "ConfigMap ") }
		isRevision := func(text string) bool { return strings.HasPrefix(text, "revision ") }
		added, gone = slices.DeleteFunc(added, isConfigMap), slices.DeleteFunc(gone, isConfigMap)
		if len(gone) > 0 || len(added) != 1 || !isRevision(added[0]) {
			t.Errorf("an update of the ConfigMap in namespace %s has more effects: %s", namespace, differs(before, now[namespace]))
		}
	}
}

// look returns the traces of all workloads.
func (w *workloads) look(t *testing.T) traces {
	t.Helper()
	ctx, all, found := t.Context(), metav1.ListOptions{}, traces{}
	add := func(object metav1.Object, kind, state string) {
		namespace := object.GetNamespace()
		if !strings.HasPrefix(namespace, w.hub.prefix) || !strings.HasSuffix(namespace, "-"+workloadName) {
			return
		}
		if found[namespace] == nil {
			found[namespace] = map[string]bool{}
		}
		found[namespace][fmt.Sprintf("%s %s %s %s", kind, object.GetName(), object.GetUID(), state)] = true
	}
	west := w.hub.west
	configMaps, err := west.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + workloadName})
	deployments, err2 := west.AppsV1().Deployments("").List(ctx, all)
	pods, err3 := west.CoreV1().Pods("").List(ctx, all)
	revisions, err4 := west.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	for _, c := range configMaps.Items {
		add(&c, "ConfigMap", c.ResourceVersion)
	}
	for _, d := range deployments.Items {
		add(&d, "Deployment", fmt.Sprint("generation ", d.Generation))
	}
	for _, p := range pods.Items {
		add(&p, "Pod", fmt.Sprint("restarts ", framework.Restarts(&p)))
	}
	for _, s := range revisions.Items {
		add(&s, "revision", "")
	}
	return found
}

// missing returns what is in a and not in b.
func missing(a, b map[string]bool) (lines []string) {
	for _, line := range slices.Sorted(maps.Keys(a)) {
		if !b[line] {
			lines = append(lines, line)
		}
	}
	return lines
}

func differs(before, now map[string]bool) string {
	return fmt.Sprintf("gone: %q, new: %q", missing(before, now), missing(now, before))
}
