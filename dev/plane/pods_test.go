package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// agentContainer returns the container of an agent as a chart's Deployment defines it.
func agentContainer() corev1.Container {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	return corev1.Container{
		Name: "agent", Image: "example.com/agent:1", Command: []string{fakeAgent}, Args: []string{"--name=$(MY_NAME)"},
		Env: []corev1.EnvVar{
			{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")},
			{Name: "MY_NAME", ValueFrom: field("metadata.name")},
			{Name: "MY_ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
			{Name: "FLEET_AGENT_PROBE_BIND_ADDRESS", Value: ":8081"}, // the port is in use, so the test shows that the value is overridden
			{Name: "SHADE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "shade"}}},
			{Name: "WORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "word"}}},
		},
	}
}

// settings creates the objects to which agentContainer refers.
func settings(ctx context.Context, client kubernetes.Interface, namespace string) error {
	meta := metav1.ObjectMeta{Name: "settings"}
	_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"shade": "green"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"word": []byte("mellon")}}, metav1.CreateOptions{})
	return err
}

func permit(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "permit"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// theAgentPod waits until check accepts the namespace's only pod.
func theAgentPod(t *testing.T, client kubernetes.Interface, namespace, what string, check func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, what, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("want one pod, got %d", len(pods.Items))
		}
		pod = &pods.Items[0]
		return check(pod)
	})
	return pod
}

func isReady(want bool) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && (c.Status == corev1.ConditionTrue) == want && pod.Status.Phase == corev1.PodRunning {
				return nil
			}
		}
		return fmt.Errorf("status %+v", pod.Status)
	}
}

func restarted(times int32) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].RestartCount != times {
			return fmt.Errorf("containers %+v", pod.Status.ContainerStatuses)
		}
		return isReady(true)(pod)
	}
}

func TestAgentPod_RunsAsAProcess(t *testing.T) {
	p := control.Plane(t)
	c := p.Cluster("east")
	client := clientFor(t, c)
	namespace := namespaceFor(t, client)
	allow(t.Context(), t, client, namespace)
	if err := settings(t.Context(), client, namespace); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deploymentOf("agent", 1, agentContainer()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := theAgentPod(t, client, namespace, "running and not ready", isReady(false))
	checkEnvironment(t, client, namespace, pod.Name)

	permit(t, client, namespace)
	theAgentPod(t, client, namespace, "ready", restarted(0))

	if err := p.KillPod(t.Context(), "east", namespace, pod.Name); err != nil {
		t.Fatal(err)
	}
	after := theAgentPod(t, client, namespace, "ready after a restart", restarted(1))
	last := after.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if after.Name != pod.Name || last == nil || last.Signal != 9 || last.ExitCode != 137 {
		t.Errorf("after the kill: pod %s, last state %+v", after.Name, last)
	}

	if err := client.AppsV1().Deployments(namespace).Delete(t.Context(), "agent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := "agent began, arguments [--name=" + pod.Name + "]\n"
	eventually(t, "the process's goodbye", func(context.Context) error {
		log, err := p.PodLog("east", namespace, pod.Name)
		if err == nil && string(log) != want+want+"agent was asked to end\n" {
			return fmt.Errorf("log %q", log)
		}
		return err
	})
	eventually(t, "end of the process's folder", func(context.Context) error {
		return noWorkload(t, p, namespace, pod.Name)
	})
}

func noWorkload(t *testing.T, p *Plane, namespace, pod string) error {
	t.Helper()
	if err := p.KillPod(t.Context(), "east", namespace, pod); err == nil {
		return errors.New("want no process to kill")
	}
	return nil
}

func checkEnvironment(t *testing.T, client kubernetes.Interface, namespace, pod string) {
	t.Helper()
	var env map[string]string
	eventually(t, "report of the process", func(ctx context.Context) error {
		reports, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range reports.Items {
			if strings.HasPrefix(reports.Items[i].Name, "report-") {
				env = reports.Items[i].Data
				return nil
			}
		}
		return errors.New("no environment yet")
	})
	if env["FLEET_HEALTHPROBE_BIND_ADDRESS"] != env["FLEET_AGENT_PROBE_BIND_ADDRESS"] || env["FLEET_METRICS_BIND_ADDRESS"] != env["FLEET_AGENT_METRICS_BIND_ADDRESS"] {
		t.Errorf("addresses: %v", env)
	}
	for name, prefix := range map[string]string{
		"FLEET_HEALTHPROBE_BIND_ADDRESS": "127.0.0.1:", "FLEET_METRICS_BIND_ADDRESS": "127.0.0.1:", "KUBECONFIG": "/", "TMPDIR": "/", "HOME": "/",
	} {
		if !strings.HasPrefix(env[name], prefix) {
			t.Errorf("%s is %q", name, env[name])
		}
		delete(env, name)
	}
	delete(env, "FLEET_AGENT_PROBE_BIND_ADDRESS")
	delete(env, "FLEET_AGENT_METRICS_BIND_ADDRESS")
	want := map[string]string{
		"GIVEN": "by the plane", "NAMESPACE": namespace, "MY_NAME": pod, "POD_NAME": pod, "HOSTNAME": pod, "MY_ACCOUNT": "default",
		"SHADE": "green", "WORD": "mellon", "FLEET_AGENT_PPROF_DISABLED": "true", "PATH": "/usr/local/bin:/usr/bin:/bin",
	}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestPodProcess_SurvivesAPause(t *testing.T) {
	p := control.Plane(t)
	c := p.Cluster("east")
	client := clientFor(t, c)
	namespace := namespaceFor(t, client)
	allow(t.Context(), t, client, namespace)
	permit(t, client, namespace)
	if err := settings(t.Context(), client, namespace); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: corev1.PodSpec{Containers: []corev1.Container{agentContainer()}}}
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	theAgentPod(t, client, namespace, "ready", restarted(0))
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	theAgentPod(t, client, namespace, "ready after the pause", restarted(0))
	log, err := p.PodLog("east", namespace, "agent")
	if err != nil || bytes.Count(log, []byte("agent began")) != 1 {
		t.Errorf("log %q, %v", log, err)
	}
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "agent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process's end", func(context.Context) error {
		log, err := p.PodLog("east", namespace, "agent")
		if err == nil && !strings.HasSuffix(string(log), "agent was asked to end\n") {
			return fmt.Errorf("log %q", log)
		}
		return err
	})
}

// runAgentPod runs the fake agent in namespace default and waits until its log shows that it has started.
func runAgentPod(ctx context.Context, c *Cluster) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	container := agentContainer()
	container.Env = container.Env[:1]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	watch, err := client.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil {
			return nil
		}
	}
	return errors.New("the watch ended before the pod was running")
}
