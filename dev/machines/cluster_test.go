package machines_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/plane/build"
)

// createCluster creates a Cluster with a control plane and one worker.
func (g *given) createCluster(t *testing.T) {
	t.Helper()
	cluster := g.cluster()
	cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef = reference("LabCluster", "c"), reference("LabControlPlane", "c")
	controlPlane := &api.LabControlPlane{ObjectMeta: g.meta("c"), Spec: api.LabControlPlaneSpec{Version: build.Version}}
	controlPlane.Spec.MachineTemplate.Spec.InfrastructureRef = reference("LabMachineTemplate", "t")
	one := int32(1)
	workers := &clusterv1.MachineDeployment{ObjectMeta: g.meta("w"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "c", Replicas: &one}}
	workers.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "c", Version: build.Version, InfrastructureRef: reference("LabMachineTemplate", "t"),
		Bootstrap: clusterv1.Bootstrap{ConfigRef: reference("LabConfigTemplate", "t")},
	}
	g.create(t,
		&api.LabMachineTemplate{ObjectMeta: g.meta("t")}, &api.LabConfigTemplate{ObjectMeta: g.meta("t")},
		g.labCluster(), controlPlane, cluster, workers)
}

// labMachines returns the LabMachines of the namespace.
func (g *given) labMachines(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := g.dynamic.Resource(api.GroupVersion().WithResource("labmachines")).Namespace(g.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// awaitMachines waits until the control plane and the worker are provisioned and each has a Node with its provider ID.
func (g *given) awaitMachines(t *testing.T) {
	t.Helper()
	eventually(t, "two provisioned machines with Nodes", func(ctx context.Context) error {
		list, err := g.dynamic.Resource(clusterv1.GroupVersion.WithResource("machines")).Namespace(g.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := 0
		for _, item := range list.Items {
			phase, _, _ := unstructured.NestedString(item.Object, "status", "phase")
			if phase == string(clusterv1.MachinePhaseRunning) {
				running++
			}
		}
		if running != 2 || len(list.Items) != 2 {
			return notYet("Machines", describe(list.Items))
		}
		return nil
	})
}

func describe(items []unstructured.Unstructured) (texts []string) {
	for _, item := range items {
		texts = append(texts, fmt.Sprintf("%s: %v", item.GetName(), item.Object["status"]))
	}
	return texts
}

// expectOneMachineEach compares LabMachines, machines at the host and Nodes.
func (g *given) expectOneMachineEach(t *testing.T) {
	t.Helper()
	labs, err := g.labMachines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := g.machineIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	providers := map[string]bool{}
	for _, lab := range labs {
		providerID, _, _ := unstructured.NestedString(lab.Object, "spec", "providerID")
		providers[providerID] = true
		if !slices.Contains(ids, string(lab.GetUID())) {
			t.Errorf("LabMachine %s has no machine; machines %v", lab.GetName(), ids)
		}
	}
	if len(ids) != len(labs) {
		t.Errorf("%d machines of %d LabMachines: %v", len(ids), len(labs), ids)
	}
	nodes, err := g.workload(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if !providers[node.Spec.ProviderID] {
			t.Errorf("Node %s has provider ID %q, which no LabMachine has: %v", node.Name, node.Spec.ProviderID, providers)
		}
	}
	if len(nodes.Items) != len(labs) {
		t.Errorf("%d Nodes of %d LabMachines", len(nodes.Items), len(labs))
	}
}

// workload returns an admin's client of the created cluster.
func (g *given) workload(t *testing.T) kubernetes.Interface {
	t.Helper()
	secret, err := g.kube.CoreV1().Secrets(g.namespace).Get(t.Context(), "c-kubeconfig", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// awaitEnd waits until the Cluster is gone and expects that the host has no machine and no endpoint.
func (g *given) awaitEnd(t *testing.T) {
	t.Helper()
	eventually(t, "the end of the Cluster", func(ctx context.Context) error {
		if err := g.get(ctx, t, g.cluster()); !apierrors.IsNotFound(err) {
			return notYet("Cluster", err)
		}
		return nil
	})
	labs, err := g.labMachines(t.Context())
	if err != nil || len(labs) > 0 {
		t.Errorf("left: %v, %v", describe(labs), err)
	}
	if ids, err := g.machineIDs(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("machines are left: %v, %v", ids, err)
	}
	if endpoints, err := g.host.Endpoints(t.Context()); err != nil || len(endpoints) > 0 {
		t.Errorf("endpoints are left: %v, %v", endpoints, err)
	}
}

// The provider is killed and restarted when each stage of a cluster's life begins.
func TestProviderKilledAtEachStage_CreatesEachMachineOnce(t *testing.T) {
	g := newGiven(t)
	restart := func() {
		t.Helper()
		if err := g.provider.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	await := func(stage string, reached func(ctx context.Context) (bool, error)) {
		t.Helper()
		eventually(t, stage, func(ctx context.Context) error {
			if ok, err := reached(ctx); err != nil || !ok {
				return notYet(stage, err)
			}
			return nil
		})
		restart()
	}
	machines := func(n int) func(ctx context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			ids, err := g.machineIDs(ctx)
			return len(ids) == n, err
		}
	}
	g.createCluster(t)
	restart()
	await("an endpoint at the host", func(ctx context.Context) (bool, error) {
		endpoints, err := g.host.Endpoints(ctx)
		return len(endpoints) == 1, err
	})
	await("the machine of the control plane", machines(1))
	await("the control plane's initialization", func(ctx context.Context) (bool, error) {
		cluster := g.cluster()
		err := g.get(ctx, t, cluster)
		initialized := cluster.Status.Initialization.ControlPlaneInitialized
		return initialized != nil && *initialized, err
	})
	await("the machine of the worker", machines(2))
	g.awaitMachines(t)
	g.expectOneMachineEach(t)
	g.delete(t, g.cluster())
	restart()
	await("the end of the worker's machine", machines(1))
	g.awaitEnd(t)
	g.expectRights(t)
}
