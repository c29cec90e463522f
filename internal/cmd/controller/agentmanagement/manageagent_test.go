package agentmanagement_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// reported makes a Cluster whose agent says that it runs in a namespace.
func reported(t *testing.T, hub *client.Client, workspace, name, agentNamespace string) {
	t.Helper()
	g := NewWithT(t)
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name}, Spec: fleet.ClusterSpec{ClientID: name}}
	g.Expect(hub.Create(t.Context(), client.Clusters, cluster)).To(Succeed())
	beat(t, hub, workspace, name, agentNamespace)
}

// beat is an agent's heartbeat.
func beat(t *testing.T, hub *client.Client, workspace, name, agentNamespace string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"agent":{"lastSeen":"2026-01-01T12:00:00Z","namespace":%q}}}`, agentNamespace)
	NewWithT(t).Expect(hub.Fleet.Patch(types.MergePatchType).Namespace(workspace).Resource(client.Clusters).Name(name).SubResource("status").
		Body(patch).Do(t.Context()).Error()).To(Succeed())
}

// awaitBundle waits for the Bundle of a Cluster's agent for which is holds.
func awaitBundle(t *testing.T, hub *client.Client, workspace, cluster string, is func(Gomega, *fleet.Bundle)) *fleet.Bundle {
	t.Helper()
	var found *fleet.Bundle
	eventually(t, func(g Gomega) {
		found = &fleet.Bundle{}
		g.Expect(hub.Get(t.Context(), client.Bundles, workspace, names.AgentBundle(cluster), found)).To(Succeed())
		letGo(t, g, hub, found)
		is(g, found)
	})
	return found
}

func isThere(Gomega, *fleet.Bundle) {}

func expectNoBundle(t *testing.T, hub *client.Client, workspace, cluster string) {
	t.Helper()
	eventually(t, func(g Gomega) {
		found := &fleet.Bundle{}
		err := hub.Get(t.Context(), client.Bundles, workspace, names.AgentBundle(cluster), found)
		if err == nil {
			letGo(t, g, hub, found)
		}
		g.Expect(err).To(notFound())
	})
}

// letGo does what the delivery does, which does not run here, once nothing of a deleted Bundle is deployed.
func letGo(t *testing.T, g Gomega, hub *client.Client, bundle *fleet.Bundle) {
	t.Helper()
	if bundle.DeletionTimestamp != nil {
		g.Expect(hub.Patch(t.Context(), client.Bundles, bundle.Namespace, bundle.Name, []byte(`{"metadata":{"finalizers":null}}`))).To(Or(Succeed(), notFound()))
	}
}

func TestReportingAgent_IsManaged(t *testing.T) {
	t.Parallel()
	hub := hub(t)
	ws := workspace(t, hub, "managed")
	reported(t, hub, ws, "east", system)
	reported(t, hub, ws, "west", system)
	g := NewWithT(t)
	made := awaitBundle(t, hub, ws, "east", isThere)
	west := awaitBundle(t, hub, ws, "west", isThere)

	owner, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), ws, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	no := false
	g.Expect(made.OwnerReferences).To(Equal([]metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Namespace", Name: ws, UID: owner.UID, Controller: &no, BlockOwnerDeletion: &no},
	}))
	g.Expect(made.Annotations).To(Equal(map[string]string{
		fleet.AnnotationSetID: "fleet-manage-agent", fleet.AnnotationSetOwnerGVK: "/v1, Kind=Namespace",
		fleet.AnnotationSetOwnerName: ws, fleet.AnnotationSetOwnerNamespace: "",
	}))
	g.Expect(made.Labels).To(HaveLen(1))
	g.Expect(made.Spec.Resources).To(HaveLen(1))
	g.Expect(made.Spec.Resources[0].Content).To(ContainSubstring("kind: Deployment"))

	// A change of one Cluster is one request. An object can be read before the log has the request that made it.
	eventually(t, func(g Gomega) { g.Expect(bundleRequests(t, ws, 0)).To(HaveLen(2)) })
	past := len(audited(t, control.Plane(t).Hub, controller, 0))
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, "east", []byte(`{"spec":{"privateRepoURL":"registry.example.com"}}`))).To(Succeed())
	awaitBundle(t, hub, ws, "east", func(g Gomega, b *fleet.Bundle) {
		g.Expect(b.Spec.Resources[0].Content).To(ContainSubstring("image: registry.example.com/"))
	})
	awaitIdle(t, hub, ws+"-idle")
	eventually(t, func(g Gomega) {
		g.Expect(bundleRequests(t, ws, past)).To(Equal([]string{"patch bundles " + ws + "/fleet-agent-east"}))
	})

	// What somebody does to it is put right, what is theirs stays.
	g.Expect(hub.Patch(t.Context(), client.Bundles, ws, made.Name, []byte(`{"spec":{"paused":true,"targets":[]}}`))).To(Succeed())
	awaitBundle(t, hub, ws, "east", func(g Gomega, b *fleet.Bundle) {
		g.Expect(b.Spec.Targets).To(Equal(made.Spec.Targets))
		g.Expect(b.Spec.Paused).To(BeTrue())
	})
	g.Expect(hub.Delete(t.Context(), client.Bundles, ws, made.Name)).To(Succeed())
	awaitBundle(t, hub, ws, "east", func(g Gomega, b *fleet.Bundle) { g.Expect(b.UID).NotTo(Equal(made.UID)) })

	// It goes with its Cluster, and alone.
	g.Expect(hub.Delete(t.Context(), client.Clusters, ws, "east")).To(Succeed())
	expectNoBundle(t, hub, ws, "east")
	g.Expect(awaitBundle(t, hub, ws, "west", isThere).ResourceVersion).To(Equal(west.ResourceVersion))
}

// bundleRequests are what the controllers have asked about the Bundles of a workspace. Past is how many requests to skip.
func bundleRequests(t *testing.T, workspace string, past int) (requests []string) {
	t.Helper()
	for _, request := range audited(t, control.Plane(t).Hub, controller, past) {
		if strings.Contains(request, " bundles "+workspace+"/") {
			requests = append(requests, request)
		}
	}
	return requests
}

func TestMovedAgent_IsManagedInItsNewNamespace(t *testing.T) {
	t.Parallel()
	hub := hub(t)
	ws := workspace(t, hub, "moving")
	reported(t, hub, ws, "east", system)
	awaitBundle(t, hub, ws, "east", isThere)
	g := NewWithT(t)
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, "east", []byte(`{"spec":{"agentNamespace":"team"}}`))).To(Succeed())
	expectNoBundle(t, hub, ws, "east")
	expectManagedCondition(t, hub, ws, corev1.ConditionFalse, conditions.ReasonAgentElsewhere)
	beat(t, hub, ws, "east", "team")
	awaitBundle(t, hub, ws, "east", func(g Gomega, b *fleet.Bundle) { g.Expect(b.Spec.DefaultNamespace).To(Equal("team")) })
	expectManagedCondition(t, hub, ws, corev1.ConditionTrue, "")
}

func TestInvalidAgentSettings_AreReported(t *testing.T) {
	t.Parallel()
	hub := hub(t)
	ws := workspace(t, hub, "unusable")
	reported(t, hub, ws, "east", system)
	made := awaitBundle(t, hub, ws, "east", isThere)
	g := NewWithT(t)
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, "east", []byte(`{"spec":{"agentEnvVars":[{"name":""}]}}`))).To(Succeed())
	expectManagedCondition(t, hub, ws, corev1.ConditionFalse, conditions.ReasonSettingsInvalid)
	g.Expect(awaitBundle(t, hub, ws, "east", isThere).Spec).To(Equal(made.Spec))
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, "east", []byte(`{"spec":{"agentEnvVars":null}}`))).To(Succeed())
	expectManagedCondition(t, hub, ws, corev1.ConditionTrue, "")
}

func expectManagedCondition(t *testing.T, hub *client.Client, workspace string, status corev1.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, func(g Gomega) {
		var cluster fleet.Cluster
		g.Expect(hub.Get(t.Context(), client.Clusters, workspace, "east", &cluster)).To(Succeed())
		found := conditions.Get(cluster.Status.Conditions, conditions.AgentManaged)
		g.Expect(found).NotTo(BeNil())
		g.Expect(found.Status).To(Equal(status))
		g.Expect(found.Reason).To(Equal(reason))
	})
}
