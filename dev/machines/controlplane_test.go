package machines_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

// plainCluster is a Cluster without a ClusterClass.
const plainCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec:
  infrastructureRef: {apiGroup: lab.fleet-hub.io, kind: LabCluster, name: c}
  controlPlaneRef: {apiGroup: lab.fleet-hub.io, kind: LabControlPlane, name: c}
---
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabCluster
metadata: {name: c}
---
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabMachineTemplate
metadata: {name: c}
spec: {template: {spec: {}}}
---
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabControlPlane
metadata: {name: c}
spec:
  version: v1.36.3
  machineTemplate:
    metadata: {labels: {tier: gold}}
    spec:
      infrastructureRef: {apiGroup: lab.fleet-hub.io, kind: LabMachineTemplate, name: c}
`

// workers is a MachineDeployment of that Cluster, with a number of replicas. Each worker has a file of a Secret.
const workers = `
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabConfigTemplate
metadata: {name: workers}
spec:
  template:
    spec:
      files:
      - path: /etc/motd
        contentFrom: {secret: {name: motd, key: text}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: workers}
spec:
  clusterName: c
  replicas: %d
  selector: {matchLabels: {pool: workers}}
  template:
    metadata: {labels: {pool: workers}}
    spec:
      clusterName: c
      version: v1.36.3
      bootstrap: {configRef: {apiGroup: lab.fleet-hub.io, kind: LabConfigTemplate, name: workers}}
      infrastructureRef: {apiGroup: lab.fleet-hub.io, kind: LabMachineTemplate, name: c}
`

// classCluster is a ClusterClass and a Cluster of it with one worker.
const classCluster = `
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabClusterTemplate
metadata: {name: lab}
spec: {template: {spec: {}}}
---
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabControlPlaneTemplate
metadata: {name: lab}
spec: {template: {spec: {}}}
---
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabMachineTemplate
metadata: {name: lab}
spec: {template: {spec: {}}}
---
apiVersion: lab.fleet-hub.io/v1alpha1
kind: LabConfigTemplate
metadata: {name: lab}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: lab}
spec:
  infrastructure: {templateRef: {apiVersion: lab.fleet-hub.io/v1alpha1, kind: LabClusterTemplate, name: lab}}
  controlPlane:
    templateRef: {apiVersion: lab.fleet-hub.io/v1alpha1, kind: LabControlPlaneTemplate, name: lab}
    machineInfrastructure: {templateRef: {apiVersion: lab.fleet-hub.io/v1alpha1, kind: LabMachineTemplate, name: lab}}
  workers:
    machineDeployments:
    - class: default
      bootstrap: {templateRef: {apiVersion: lab.fleet-hub.io/v1alpha1, kind: LabConfigTemplate, name: lab}}
      infrastructure: {templateRef: {apiVersion: lab.fleet-hub.io/v1alpha1, kind: LabMachineTemplate, name: lab}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec:
  topology:
    classRef: {name: lab}
    version: v1.36.3
    controlPlane: {replicas: 1}
    workers:
      machineDeployments: [{class: default, name: pool, replicas: 1}]
`

// apply creates or changes the objects of a YAML text.
func (g *given) apply(t *testing.T, text string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(g.namespace)
		if _, err := g.resource(object).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatalf("applying %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func (g *given) awaitAvailable(t *testing.T) {
	t.Helper()
	eventually(t, "the condition Available of the Cluster", func(ctx context.Context) error {
		cluster := g.cluster()
		if err := g.get(ctx, t, cluster); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.AvailableCondition) {
			return notYet("Cluster", cluster.Status.Conditions)
		}
		return nil
	})
}

// list returns the objects of a kind in the namespace.
func (g *given) list(ctx context.Context, like *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	like.SetNamespace(g.namespace)
	list, err := g.resource(like).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func kindIn(apiVersion, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
}

// awaitNodes waits until each of this number of Machines has a ready Node with the provider ID of the Machine.
func (g *given) awaitNodes(t *testing.T, want int) {
	t.Helper()
	client := g.workload(t)
	eventually(t, fmt.Sprintf("%d ready Nodes", want), func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var ready []string
		for _, node := range nodes.Items {
			if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				ready = append(ready, node.Name+" "+node.Spec.ProviderID)
			}
		}
		machines, err := g.list(ctx, kindIn(clusterv1.GroupVersion.String(), "Machine"))
		if err != nil {
			return err
		}
		var expected []string
		for _, machine := range machines {
			node, _, nodeErr := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
			id, _, idErr := unstructured.NestedString(machine.Object, "spec", "providerID")
			if err := errors.Join(nodeErr, idErr); err != nil {
				return err
			}
			expected = append(expected, node+" "+id)
		}
		slices.Sort(ready)
		slices.Sort(expected)
		if len(ready) != want || !slices.Equal(ready, expected) {
			return fmt.Errorf("ready Nodes %v, Nodes of Machines %v", ready, expected)
		}
		return nil
	})
}

// deleteCluster deletes the Cluster and waits until no object, Secret, machine and endpoint of it is left.
func (g *given) deleteCluster(t *testing.T) {
	t.Helper()
	machines, endpoints := g.uids(t, "LabMachine"), g.uids(t, "LabCluster")
	g.delete(t, g.cluster())
	eventually(t, "the end of all objects of the Cluster", func(ctx context.Context) error {
		for _, kind := range []*unstructured.Unstructured{
			kindIn(clusterv1.GroupVersion.String(), "Cluster"), kindIn(clusterv1.GroupVersion.String(), "Machine"),
			kindIn(clusterv1.GroupVersion.String(), "MachineSet"), kindIn(clusterv1.GroupVersion.String(), "MachineDeployment"),
			kindIn(api.GroupVersion().String(), "LabCluster"), kindIn(api.GroupVersion().String(), "LabControlPlane"),
			kindIn(api.GroupVersion().String(), "LabMachine"), kindIn(api.GroupVersion().String(), "LabConfig"),
		} {
			if left, err := g.list(ctx, kind); err != nil || len(left) > 0 {
				return notYet(kind.GetKind(), fmt.Sprintf("%d are left, %v", len(left), err))
			}
		}
		secrets, err := g.kube.CoreV1().Secrets(g.namespace).List(ctx, metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabel})
		if err != nil || len(secrets.Items) > 0 {
			return notYet("Secrets", fmt.Sprintf("%d are left, %v", len(secrets.Items), err))
		}
		return nil
	})
	for _, machine := range machines {
		g.expectNothingAtHost(t, machine, endpoints[0])
	}
}

func (g *given) uids(t *testing.T, kind string) []string {
	t.Helper()
	found, err := g.list(t.Context(), kindIn(api.GroupVersion().String(), kind))
	if err != nil || len(found) == 0 {
		t.Fatalf("%d of kind %s, %v", len(found), kind, err)
	}
	var uids []string
	for _, each := range found {
		uids = append(uids, string(each.GetUID()))
	}
	return uids
}

func TestClusterWithWorkers_ScalesAndLeavesNothing(t *testing.T) {
	t.Parallel() // the core connects to a new cluster only every 30 seconds
	g := newGiven(t)
	g.apply(t, plainCluster)
	g.awaitAvailable(t)
	g.awaitNodes(t, 1)
	g.expectAdminKubeconfig(t)
	g.expectPropagation(t)
	motd := &corev1.Secret{ObjectMeta: g.meta("motd"), StringData: map[string]string{"text": "hello"}}
	if _, err := g.kube.CoreV1().Secrets(g.namespace).Create(t.Context(), motd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, replicas := range []int{0, 3, 1} {
		g.apply(t, fmt.Sprintf(workers, replicas))
		g.awaitNodes(t, 1+replicas)
	}
	g.deleteCluster(t)
}

// expectAdminKubeconfig sends a request that only administrators may send, and compares the version.
func (g *given) expectAdminKubeconfig(t *testing.T) {
	t.Helper()
	client := g.workload(t)
	if _, err := client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	controlPlane := &api.LabControlPlane{ObjectMeta: g.meta("c")}
	if err := g.get(t.Context(), t, controlPlane); err != nil || controlPlane.Status.Version != version.GitVersion {
		t.Errorf("the status has version %s, the API server %s, %v", controlPlane.Status.Version, version.GitVersion, err)
	}
}

// expectPropagation changes labels of the template and waits for them on the Machine, which must stay the same.
func (g *given) expectPropagation(t *testing.T) {
	t.Helper()
	like := kindIn(clusterv1.GroupVersion.String(), "Machine")
	before, err := g.list(t.Context(), like)
	if err != nil || len(before) != 1 || before[0].GetLabels()["tier"] != "gold" {
		t.Fatalf("Machines %v, %v", before, err)
	}
	patch := []byte(`{"spec":{"machineTemplate":{"metadata":{"labels":{"tier":null,"zone":"b"}}}}}`)
	wanted := encode(t, &api.LabControlPlane{ObjectMeta: g.meta("c")})
	if _, err := g.resource(wanted).Patch(t.Context(), "c", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new labels of the Machine", func(ctx context.Context) error {
		after, err := g.list(ctx, like)
		if err != nil || len(after) != 1 || after[0].GetUID() != before[0].GetUID() {
			return fmt.Errorf("%d Machines, %w", len(after), err)
		}
		if _, stays := after[0].GetLabels()["tier"]; stays || after[0].GetLabels()["zone"] != "b" {
			return notYet("labels", after[0].GetLabels())
		}
		return nil
	})
}

func TestClusterOfAClusterClass_BecomesAvailableAndLeavesNothing(t *testing.T) {
	t.Parallel()
	g := newGiven(t)
	g.apply(t, classCluster)
	g.awaitAvailable(t)
	g.awaitNodes(t, 2)
	g.deleteCluster(t)
}
