package capi_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// events returns the reasons of the Events about a Cluster of Cluster API.
func (s *story) events(g Gomega, name string) []string {
	list, err := s.Hub.Kube.CoreV1().Events(framework.Workspace).List(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Cluster,involvedObject.name=" + name})
	g.Expect(err).NotTo(HaveOccurred())
	var reasons []string
	for _, event := range list.Items {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}

func TestClusterAPIInstalledLater_ClustersJoinByThemselves(t *testing.T) {
	s := tell(t, member)
	defer s.leave(joining, joining)
	s.Expect(s.detecting).To(Equal(s.before), "the controllers detect Cluster API without a restart")

	s.describe(joining, "v1beta2", map[string]string{"env": "dev"})
	s.eventually(func(g Gomega) {
		g.Expect(s.events(g, joining)).To(ContainElement(conditions.ReasonAwaitingControlPlane))
	})
	s.initialize(joining)
	s.eventually(func(g Gomega) {
		g.Expect(s.events(g, joining)).To(ContainElement(conditions.ReasonKubeconfigMissing))
	})
	s.Expect(s.clusters()).NotTo(ContainElement(joining))

	began := time.Now()
	s.hand(joining, s.kubeconfig(joining, provider))
	cluster := s.joined(joining)
	t.Logf("from the kubeconfig to the first heartbeat: %s", time.Since(began).Round(time.Millisecond))
	s.Expect(cluster.Labels).To(HaveKeyWithValue("env", "dev"))
	s.Expect(cluster.Spec.KubeConfigSecret).To(Equal(joining + "-kubeconfig"))
	s.eventually(func(g Gomega) { g.Expect(reason(s.cluster(joining))).To(Equal("True")) })

	s.patch(joining, `{"metadata":{"labels":{"env":"prod"}}}`)
	s.eventually(func(g Gomega) { g.Expect(s.cluster(joining).Labels).To(HaveKeyWithValue("env", "prod")) })
}

// listed returns the Clusters of Fleet.
func (s *story) listed() []fleet.Cluster {
	s.t.Helper()
	var list fleet.ClusterList
	s.must(s.Hub.List(s.ctx, client.Clusters, framework.Workspace, &list))
	return list.Items
}

// clusters returns the names of the Clusters of Fleet.
func (s *story) clusters() (found []string) {
	s.t.Helper()
	for _, cluster := range s.listed() {
		found = append(found, cluster.Name)
	}
	return found
}

func TestClusterOfAnOlderVersion_JoinsByItself(t *testing.T) {
	s := tell(t, member)
	defer s.leave(older, older)
	s.describe(older, "v1beta1", map[string]string{"written": "v1beta1"})
	s.hand(older, s.kubeconfig(older, provider))
	s.initialize(older)
	s.Expect(s.joined(older).Labels).To(HaveKeyWithValue("written", "v1beta1"))
}
