package labconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/workload"
	"github.com/fleet-hub/fleet/dev/plane/podrunner"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// patience limits a wait for something that takes some seconds on an idle machine.
const patience = time.Minute

// startHost starts a machine host whose machines find an agent that never ends.
func startHost(t *testing.T) *host.Child {
	t.Helper()
	path, err := host.Programs(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	agent := t.TempDir()
	if err := os.WriteFile(filepath.Join(agent, agentProgram), []byte("#!/bin/sh\nexec tail -f /dev/null\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lab-") // a test's own directory is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	child, err := host.Start(t.Context(), host.StartOptions{Dir: dir, Path: append(path, agent), Progress: t.Logf})
	if err != nil {
		t.Fatal(errors.Join(err, os.RemoveAll(dir)))
	}
	t.Cleanup(func() {
		if log, err := child.Log(context.Background(), "east-1"); t.Failed() && err == nil {
			t.Logf("log of east-1:\n%s", log)
		}
		if err := child.Close(); err != nil {
			t.Error(err)
		}
	})
	return child
}

// run creates a machine and waits until it has executed its bootstrap data.
func run(t *testing.T, child *host.Child, id string, machine host.Machine) {
	t.Helper()
	if _, err := child.CreateMachine(t.Context(), id, machine); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "machine "+id, patience, func(ctx context.Context) error {
		status, err := child.Machine(ctx, id)
		if err == nil && status.State != host.Running {
			err = fmt.Errorf("%s: %s %s", status.State, status.Cause, status.Output)
		}
		return err
	})
}

// adminOf returns the kubeconfig Secret and a client of the cluster's administrator.
func adminOf(t *testing.T, in Input) (*corev1.Secret, kubernetes.Interface) {
	t.Helper()
	owner := clustersecrets.OwnerOf(in.ControlPlane, "east")
	secret := must(owner.NewKubeconfig(must(owner.ReadCA(in.CA))(t), clustersecrets.URL(in.Cluster.Spec.ControlPlaneEndpoint), in.Now))(t)
	config := must(clustersecrets.ParseKubeconfig(secret.Data[clustersecrets.KeyValue]))(t)
	config.QPS = -1
	return secret, must(kubernetes.NewForConfig(config))(t)
}

func TestMachines_BecomeAClusterThatRunsTheAgent(t *testing.T) {
	child := startHost(t)
	address, port, err := child.ReserveEndpoint(t.Context(), "east")
	if err != nil {
		t.Fatal(err)
	}
	now, yes := time.Now(), true
	in := controlPlaneOf(t, func(in *Input) {
		in.Now = now
		in.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: address, Port: int32(port)}
		owner := clustersecrets.OwnerOf(in.ControlPlane, "east")
		in.CA, in.Accounts = must(owner.NewCA(now))(t), must(owner.NewAccounts())(t)
	})
	run(t, child, "east-1", host.Machine{Endpoint: "east", BootstrapData: rendered(t, in)})
	kubeconfig, client := adminOf(t, in)
	nodeReady(t, client, "east-1")
	pid := runAgent(t, client)

	worker := in
	worker.Config = in.Config.DeepCopy()
	worker.Config.UID = "worker"
	worker.Machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "east-2"}}
	worker.Cluster.Status.Initialization.ControlPlaneInitialized = &yes
	worker.Kubeconfig = kubeconfig
	join(t, worker)
	run(t, child, "east-2", host.Machine{BootstrapData: rendered(t, worker)})
	nodeReady(t, client, "east-2")

	if err := child.DeleteMachine(t.Context(), "east-1"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the end of the agent's process", patience, func(context.Context) error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal 0 to process %d: %s", pid, fmt.Sprint(err)) // it exists until its new parent has waited for it
		}
		return nil
	})
}

// join lets a worker join, as the controller does.
func join(t *testing.T, in Input) {
	t.Helper()
	cluster := must(workload.New(in.Kubeconfig.Data[clustersecrets.KeyValue]))(t)
	token := workload.NewToken(must(clustersecrets.OwnerOf(in.ControlPlane, "east").ReadCA(in.CA))(t), in.Config.UID)
	if err := errors.Join(cluster.EnsureBindings(t.Context()), cluster.EnsureToken(t.Context(), token, in.Now)); err != nil {
		t.Fatal(err)
	}
}

func nodeReady(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	await.Until(t, "Node "+name, patience, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", node.Status.Conditions)
	})
}

// runAgent creates a pod with the command of the agent and returns its process ID.
func runAgent(t *testing.T, client kubernetes.Interface) (pid int) {
	t.Helper()
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	await.Until(t, "a new pod", patience, func(ctx context.Context) error {
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "agent"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent:1", Command: []string{agentProgram}}}},
		}, metav1.CreateOptions{})
		return err // until the namespace has its account
	})
	await.Until(t, "the agent's process", patience, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "agent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) != 1 {
			return fmt.Errorf("status %+v", pod.Status)
		}
		text, isProcess := strings.CutPrefix(pod.Status.ContainerStatuses[0].ContainerID, podrunner.ProcessScheme)
		if !isProcess {
			return fmt.Errorf("status %+v", pod.Status)
		}
		pid, err = strconv.Atoi(text)
		return err
	})
	return pid
}
