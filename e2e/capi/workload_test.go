package capi_test

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// workload is a Deployment, by its name.
const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: web, image: example.com/web:1}]}
`

// deliver creates a Bundle that delivers a Deployment to one Cluster, of this cluster of Cluster API.
func (s *story) deliver(of, cluster string) {
	s.t.Helper()
	name := "to-" + of
	s.must(s.Hub.Create(s.ctx, client.Bundles, &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: name},
			Resources:               []fleet.BundleResource{{Name: "web.yaml", Content: fmt.Sprintf(workload, name)}},
			Targets:                 []fleet.BundleTarget{{Name: "it", ClusterName: cluster}},
		},
	}))
	s.t.Cleanup(func() {
		if err := s.Hub.Delete(context.Background(), client.Bundles, framework.Workspace, name); err != nil {
			s.t.Error(err)
		}
	})
}

// pods waits until the delivered Deployment is ready, and returns the UIDs of its pods.
func (s *story) pods(of string) []string {
	s.t.Helper()
	name := "to-" + of
	var uids []string
	s.eventually(func(g Gomega) {
		kube := s.On(s.on).Kube
		deployment, err := kube.AppsV1().Deployments(name).Get(s.ctx, name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(deployment.Status.ReadyReplicas).To(BeEquivalentTo(2))
		pods, err := kube.CoreV1().Pods(name).List(s.ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		uids = nil
		for _, pod := range pods.Items {
			uids = append(uids, string(pod.UID))
		}
		g.Expect(uids).To(HaveLen(2))
	})
	return uids
}

// expectUntouched waits until the agent has reported again, and compares it and the pods with those before.
func (s *story) expectUntouched(of, cluster string, before agent, pods []string) {
	s.t.Helper()
	now := s.cluster(cluster)
	_, err := s.SeenAfter(s.ctx, now, now.Status.Agent.LastSeen.Time, framework.Patience)
	s.must(err)
	s.Expect(s.agentOf(now)).To(Equal(before), "the agent was replaced or changed")
	s.Expect(s.pods(of)).To(ConsistOf(pods), "the workload has other pods")
}
