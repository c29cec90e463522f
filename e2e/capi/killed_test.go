package capi_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// killControllers kills the hub's controllers, which the plane starts again.
func (s *story) killControllers() {
	s.t.Helper()
	_, pod, err := s.controllerPod(s.ctx)
	s.must(err)
	s.eventually(func(g Gomega) { // it may be about to start after the last kill
		g.Expect(s.KillPod(s.ctx, framework.HubName, names.SystemNamespace, pod)).To(Succeed())
	})
}

func TestProcessesKilledAtEachStage_ClusterJoinsOnce(t *testing.T) {
	s := tell(t, member)
	defer s.leave(disturbed, disturbed)
	s.t.Cleanup(func() { // the other tests need the core
		if err := s.core.Restart(context.WithoutCancel(s.ctx)); err != nil {
			t.Error(err)
		}
	})
	s.describe(disturbed, "v1beta2", map[string]string{"stage": "one"})
	s.must(s.core.Kill())
	s.initialize(disturbed)
	s.hand(disturbed, s.kubeconfig(disturbed, provider))
	s.Expect(s.clusters()).NotTo(ContainElement(disturbed), "nothing has reported that the control plane is initialized")
	s.must(s.core.Restart(s.ctx))
	s.killControllers()
	cluster := s.joined(disturbed)
	before := s.agentOf(cluster)

	s.must(s.core.Kill())
	s.hand(disturbed, s.kubeconfig(disturbed, provider))
	_, err := s.SeenAfter(s.ctx, cluster, s.cluster(disturbed).Status.Agent.LastSeen.Time, framework.Patience)
	s.must(err)
	s.Expect(s.agentOf(cluster)).To(Equal(before))
	registrations, err := s.Registrations(s.ctx, framework.Workspace, cluster.Spec.ClientID)
	s.must(err)
	s.Expect(registrations).To(HaveLen(1))

	s.must(s.core.Restart(s.ctx))
	s.patch(disturbed, `{"metadata":{"labels":{"stage":"two"}}}`)
	s.eventually(func(g Gomega) { g.Expect(s.cluster(disturbed).Labels).To(HaveKeyWithValue("stage", "two")) })

	s.must(s.capiClusters("v1beta2").Delete(s.ctx, disturbed, metav1.DeleteOptions{}))
	s.killControllers()
	s.eventually(func(g Gomega) { g.Expect(s.clusters()).NotTo(ContainElement(disturbed)) })
}
