//go:build linux

package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// checkin is the heartbeat interval of the stories' agents. Three missed heartbeats are detected within two
// minutes.
const checkin = "20s"

// Labels of pods.
const (
	agentPods      = "app=" + names.Agent
	controllerPods = "app=fleet-controller"
)

// release returns a release of one of our charts on a cluster.
func release(cluster, chart string, values map[string]any) helm.Release {
	return helm.Release{Config: world.Node(cluster).Config(), Chart: chart, Name: chart, Namespace: names.SystemNamespace, Values: values}
}

// hubValues returns the values of chart fleet on the hub, with additional ones.
func hubValues(more map[string]any) map[string]any {
	hub := world.Node(framework.HubName)
	values := map[string]any{"apiServerURL": hub.URL, "apiServerCA": string(hub.CA), "agentCheckinInterval": checkin}
	for key, value := range more {
		values[key] = value
	}
	return values
}

// app returns a Bundle with a Deployment, for the clusters with a label. It uses the pause image, the only one
// that needs no configuration.
func app(name string, labels map[string]string) *fleet.Bundle {
	deployment := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
spec:
  replicas: 2
  selector:
    matchLabels: {app: %[1]s}
  template:
    metadata:
      labels: {app: %[1]s}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: pause
        image: %[2]s
`, name, nodes.PauseImage)
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: name},
			Resources:               []fleet.BundleResource{{Name: "deployment.yaml", Content: deployment}},
			Targets:                 []fleet.BundleTarget{{Name: "some", ClusterSelector: &metav1.LabelSelector{MatchLabels: labels}}},
		},
	}
}

// runs waits until the pods of a Deployment are ready.
func runs(ctx context.Context, cluster, namespace, name string, replicas int32) {
	GinkgoHelper()
	_, err := client.Until(ctx, client.Await{
		From: world.On(cluster).Kube.AppsV1().RESTClient(), Resource: "deployments", Namespace: namespace, Name: name,
		For: fmt.Sprintf("%d ready pods, and no others", replicas), Within: patience,
	}, func(d *appsv1.Deployment) bool {
		return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == replicas && d.Status.ReadyReplicas == replicas && d.Status.UpdatedReplicas == replicas
	})
	Expect(err).NotTo(HaveOccurred())
}

// theirs returns the non-terminating pods with a label in a cluster's system namespace. A terminating pod may
// exist together with the running pod that replaces it.
func theirs(ctx context.Context, cluster, label string) []corev1.Pod {
	GinkgoHelper()
	list, err := world.On(cluster).Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: label})
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// kill deletes a pod without a grace period, as if its node had died.
func kill(ctx context.Context, cluster, pod string) {
	GinkgoHelper()
	now := int64(0)
	Expect(world.On(cluster).Kube.CoreV1().Pods(names.SystemNamespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now})).To(Succeed())
}

// leader returns the pod that holds a lease of the system namespace. It waits until that pod exists and is not
// terminating: after an upgrade the lease may still belong to a terminating pod.
func leader(ctx context.Context, cluster, lease string) string {
	GinkgoHelper()
	var holder string
	Eventually(func(g Gomega) {
		held, err := world.On(cluster).Kube.CoordinationV1().Leases(names.SystemNamespace).Get(ctx, lease, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(held.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
		holder, _, _ = strings.Cut(*held.Spec.HolderIdentity, "_")
		pod, err := world.On(cluster).Kube.CoreV1().Pods(names.SystemNamespace).Get(ctx, holder, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pod.DeletionTimestamp).To(BeNil())
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
	return holder
}

// registrations returns the UIDs of a Cluster's registrations by name.
func registrations(ctx context.Context, cluster *fleet.Cluster) map[string]string {
	GinkgoHelper()
	var list fleet.ClusterRegistrationList
	Expect(world.Hub.List(ctx, client.ClusterRegistrations, cluster.Namespace, &list)).To(Succeed())
	found := map[string]string{}
	for _, request := range list.Items {
		if request.Spec.ClientID == cluster.Spec.ClientID {
			found[request.Name] = string(request.UID)
		}
	}
	return found
}

// heartbeat waits for a heartbeat after the given time, compared in whole seconds.
func heartbeat(ctx context.Context, cluster *fleet.Cluster, after time.Time) {
	GinkgoHelper()
	_, err := world.SeenAfter(ctx, cluster, after, patience)
	Expect(err).NotTo(HaveOccurred())
}

// current returns the current Cluster.
func current(ctx context.Context, cluster *fleet.Cluster) *fleet.Cluster {
	GinkgoHelper()
	var now fleet.Cluster
	Expect(world.Hub.Get(ctx, client.Clusters, cluster.Namespace, cluster.Name, &now)).To(Succeed())
	return &now
}

// delivers checks that hub and agent work: the pods of a new Bundle run on a cluster. It deletes the Bundle
// afterwards.
func delivers(ctx context.Context, cluster, name string, labels map[string]string) {
	GinkgoHelper()
	Expect(world.Hub.Create(ctx, client.Bundles, app(name, labels))).To(Succeed())
	runs(ctx, cluster, name, name, 2)
	Expect(world.Hub.Delete(ctx, client.Bundles, framework.Workspace, name)).To(Succeed())
}

// pods returns the state of the pods on a cluster, for a failed story.
func pods(ctx context.Context, cluster string) string {
	list, err := world.On(cluster).Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, pod := range list.Items {
		fmt.Fprintf(&text, "%s/%s %s", pod.Namespace, pod.Name, pod.Status.Phase)
		for _, container := range pod.Status.ContainerStatuses {
			fmt.Fprintf(&text, " ready %t, restarted %d times, %+v", container.Ready, container.RestartCount, container.State)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// crdSettling is how long an API server delays the first objects of a new CRD. A user needs longer for the next
// command, so it does not count as the product's time.
const crdSettling = 2 * time.Second

func settle(ctx context.Context) {
	select {
	case <-time.After(crdSettling):
	case <-ctx.Done():
	}
}
