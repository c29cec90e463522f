package agentmanagement_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// joinDocuments waits for the manifest of a cluster of Cluster API, until it is as wanted.
func (a *clusterAPI) joinDocuments(cluster string, is func([]*unstructured.Unstructured) bool) (documents []*unstructured.Unstructured) {
	a.t.Helper()
	eventually(a.t, func(g Gomega) {
		found, err := secret(a.t.Context(), a.hub, a.workspace, cluster+"-fleet-join")
		g.Expect(err).NotTo(HaveOccurred())
		documents = nil
		for document := range bytes.SplitSeq(found.Data["value"], []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			g.Expect(yaml.Unmarshal(document, &object.Object)).To(Succeed())
			documents = append(documents, object)
		}
		g.Expect(is(documents)).To(BeTrue())
	})
	return documents
}

// boot plays the bootstrap provider: it applies the manifest on the cluster east, as `kubectl apply --server-side` does.
func boot(t *testing.T, documents []*unstructured.Unstructured) {
	t.Helper()
	cfg, discovery := east(t).Config(), reach(t, east(t).Config()).Kube.Discovery()
	dynamics, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	for _, object := range documents {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		resources := dynamic.ResourceInterface(dynamics.Resource(mapping.Resource))
		if object.GetNamespace() != "" {
			resources = dynamics.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		if _, err := resources.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "kubectl"}); err != nil {
			t.Fatalf("%s %s: %v", kind.Kind, object.GetName(), err)
		}
	}
}

func installsAgent(documents []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(documents, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
}

func installsNothing(documents []*unstructured.Unstructured) bool {
	return len(documents) == 1 && documents[0].GetKind() == "Namespace"
}

// A cluster that the hub cannot reach joins with a manifest, which is worthless afterwards.
func TestClusterAPI_JoinsWithAManifest(t *testing.T) {
	g, a := NewWithT(t), startClusterAPI(t, "ws-capi-join")
	a.configure(map[string]any{"enabled": true})
	a.installCRD()
	uid := a.create("c5", map[string]string{"env": "test"})
	a.awaitEvent(uid, conditions.ReasonAwaitingControlPlane)
	a.patch("c5", `{"metadata":{"annotations":{"fleet.cattle.io/capi-join":"agent"}}}`)
	c := a.await("waits for its agent", func(c fleet.Cluster) bool {
		return follows(conditions.ReasonAwaitingAgent)(c) && c.Status.Namespace != ""
	})
	g.Expect(c.Spec.KubeConfigSecret).To(BeEmpty())
	g.Expect(c.Spec.ClientID).NotTo(BeEmpty())
	// The usual namespace is that of another test's agent.
	g.Expect(a.hub.Patch(t.Context(), client.Clusters, a.workspace, "c5", []byte(`{"spec":{"agentNamespace":"capi-join"}}`))).To(Succeed())
	documents := a.joinDocuments("c5", func(documents []*unstructured.Unstructured) bool {
		return installsAgent(documents) && documents[0].GetName() == "capi-join"
	})
	made, err := secret(t.Context(), a.hub, a.workspace, "c5-fleet-join")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.OwnerReferences).To(Equal([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "c5", UID: uid}}))
	boot(t, documents)
	bootstrap, err := secret(t.Context(), reach(t, east(t).Config()), "capi-join", "fleet-agent-bootstrap")
	g.Expect(err).NotTo(HaveOccurred())
	identity, err := protocol.ParseBootstrap(bootstrap.Data)
	g.Expect(err).NotTo(HaveOccurred())

	expectOnlyItsClient(t, a, identity)
	ahead.Store(int64(25 * time.Hour))
	defer ahead.Store(0)
	a.patch("c5", `{"metadata":{"labels":{"env":"prod"}}}`)
	eventually(t, func(g Gomega) {
		token := &fleet.ClusterRegistrationToken{}
		g.Expect(a.hub.Get(t.Context(), client.Tokens, a.workspace, identity.TokenName, token)).To(Succeed())
		g.Expect(token.Spec.TTL.Duration).To(BeNumerically(">", 96*time.Hour), "the token is prolonged")
	})
	ahead.Store(0) // or the answer to a request is a day old at once, and is taken back

	c = a.await("has its namespace", func(c fleet.Cluster) bool { return c.Status.Namespace != "" })
	expectJoins(t, identity, &c)
	a.await("has joined", follows(""))
	a.joinDocuments("c5", installsNothing)
	eventually(t, func(g Gomega) {
		g.Expect(a.hub.Get(t.Context(), client.Tokens, a.workspace, identity.TokenName, &fleet.ClusterRegistrationToken{})).To(notFound())
		holder := reach(t, as(control.Plane(t).Hub, identity.Token))
		g.Expect(isRefused(holder.Create(t.Context(), client.ClusterRegistrations, newRequest(a.workspace, c.Spec.ClientID, "late", identity.TokenName)))).To(BeTrue())
	})

	a.delete("c5")
	eventually(t, func(g Gomega) {
		g.Expect(a.registered()).To(BeEmpty())
		_, err := secret(t.Context(), a.hub, a.workspace, "c5-fleet-join")
		g.Expect(err).To(notFound())
	})
}

// expectOnlyItsClient tries to register another client with the token of a manifest: with its name, with that of another
// token of the workspace, and without one.
func expectOnlyItsClient(t *testing.T, a *clusterAPI, identity protocol.Bootstrap) {
	t.Helper()
	newToken(t, a.hub, a.workspace, "of-others", time.Hour)
	valuesOf(t, a.hub, a.workspace, "of-others")
	holder := reach(t, as(control.Plane(t).Hub, identity.Token))
	named := newRequest(a.workspace, "another", "named", identity.TokenName)
	eventually(t, func(g Gomega) { // rights take a moment to be in force
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, named)).To(Succeed())
	})
	eventually(t, func(g Gomega) {
		g.Expect(a.hub.Get(t.Context(), client.ClusterRegistrations, a.workspace, named.Name, named)).To(Succeed())
		granted := conditions.Get(named.Status.Conditions, conditions.Granted)
		g.Expect(granted).NotTo(BeNil())
		g.Expect(granted.Status).To(Equal(corev1.ConditionFalse))
		g.Expect(granted.Reason).To(Equal(conditions.ReasonClientIDNotAllowed))
	})
	for random, token := range map[string]string{"of-others": "of-others", "unnamed": ""} {
		request := newRequest(a.workspace, "another-"+random, random, token)
		if err := holder.Create(t.Context(), client.ClusterRegistrations, request); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(g Gomega) { // granted, but not for the holder of this token
			g.Expect(a.hub.Get(t.Context(), client.ClusterRegistrations, a.workspace, request.Name, request)).To(Succeed())
			g.Expect(request.Status.Granted).To(BeTrue())
		})
		if _, err := secret(t.Context(), holder, registration, names.CredentialSecret(request.Spec.ClientID, random)); !isRefused(err) {
			t.Errorf("the answer to a request with token %q: %v", token, err)
		}
		if err := a.hub.Delete(t.Context(), client.Clusters, a.workspace, request.Status.ClusterName); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func(g Gomega) { g.Expect(a.registered()).To(HaveLen(1)) })
}
