package agentmanagement_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// clusterAPI is the hub as a provider of Cluster API sees it. The test plays that provider.
type clusterAPI struct {
	t         *testing.T
	hub       *client.Client
	workspace string
	crds      dynamic.NamespaceableResourceInterface
	clusters  dynamic.ResourceInterface
}

func startClusterAPI(t *testing.T, name string) *clusterAPI {
	t.Helper()
	hub := hub(t)
	dynamics, err := dynamic.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	ws := workspace(t, hub, name)
	return &clusterAPI{
		t: t, hub: hub, workspace: ws,
		crds:     dynamics.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}),
		clusters: dynamics.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}).Namespace(ws),
	}
}

// configure upgrades the controllers' chart, which the running controllers notice.
func (a *clusterAPI) configure(values map[string]any) {
	a.t.Helper()
	if err := chart(control.Plane(a.t).Hub, values).Install(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		ctx := context.Background() // the test's is canceled
		if err := chart(control.Plane(a.t).Hub, map[string]any{}).Install(ctx); err != nil {
			a.t.Error(err)
		}
	})
}

// installCRD installs the CRD of Cluster API until the test ends.
func (a *clusterAPI) installCRD() {
	a.t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "cluster.x-k8s.io_clusters.yaml"))
	if err != nil {
		a.t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &crd.Object); err != nil {
		a.t.Fatal(err)
	}
	eventually(a.t, func(g Gomega) { // that of another test may still be deleted
		_, err := a.crds.Create(a.t.Context(), crd, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	})
	a.t.Cleanup(func() {
		if err := a.crds.Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{}); err != nil { // the test's context is canceled
			a.t.Error(err)
		}
	})
}

// create creates a Cluster of Cluster API as soon as the API server serves it.
func (a *clusterAPI) create(name string, labels map[string]string) types.UID {
	a.t.Helper()
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"spec": map[string]any{
			"controlPlaneRef":   map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "LabControlPlane", "name": name + "-cp"},
			"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LabCluster", "name": name},
		},
	}}
	c.SetName(name)
	c.SetLabels(labels)
	var created *unstructured.Unstructured
	eventually(a.t, func(g Gomega) {
		var err error
		created, err = a.clusters.Create(a.t.Context(), c, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	})
	return created.GetUID()
}

// patch merges into a Cluster of Cluster API.
func (a *clusterAPI) patch(name, document string, subresources ...string) {
	a.t.Helper()
	if _, err := a.clusters.Patch(a.t.Context(), name, types.MergePatchType, []byte(document), metav1.PatchOptions{}, subresources...); err != nil {
		a.t.Fatal(err)
	}
}

// initialize is what a control plane does when it answers.
func (a *clusterAPI) initialize(name string) {
	a.t.Helper()
	a.patch(name, `{"status":{"initialization":{"controlPlaneInitialized":true}}}`, "status")
}

// writeKubeconfig writes the Secret as a control plane does, unless something of it is modified.
func (a *clusterAPI) writeKubeconfig(name string, modifiers ...func(*corev1.Secret)) {
	a.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.workspace, Name: name + "-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "LabControlPlane", Name: name + "-cp", UID: "cp"}},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": kubeconfig(a.t)},
	}
	for _, modify := range modifiers {
		modify(s)
	}
	secrets := a.hub.Kube.CoreV1().Secrets(a.workspace)
	_, err := secrets.Create(a.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(a.t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// delete deletes a Cluster of Cluster API, which has no finalizer because no core runs.
func (a *clusterAPI) delete(name string) {
	a.t.Helper()
	if err := a.clusters.Delete(a.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// awaitEvent waits until a Cluster of Cluster API has an Event.
func (a *clusterAPI) awaitEvent(uid types.UID, reason string) {
	a.t.Helper()
	eventually(a.t, func(g Gomega) {
		list, err := a.hub.Kube.CoreV1().Events(a.workspace).List(a.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(uid)})
		g.Expect(err).NotTo(HaveOccurred())
		var reasons []string
		for _, event := range list.Items {
			reasons = append(reasons, event.Reason)
		}
		g.Expect(reasons).To(ContainElement(reason))
	})
}

// registered returns all Clusters of Fleet in the workspace.
func (a *clusterAPI) registered() []fleet.Cluster {
	a.t.Helper()
	list := &fleet.ClusterList{}
	if err := a.hub.List(a.t.Context(), client.Clusters, a.workspace, list); err != nil {
		a.t.Fatal(err)
	}
	return list.Items
}

// await waits until the only Cluster of Fleet in the workspace fulfils a condition.
func (a *clusterAPI) await(what string, is func(fleet.Cluster) bool) fleet.Cluster {
	a.t.Helper()
	var found fleet.Cluster
	eventually(a.t, func(g Gomega) {
		all := a.registered()
		g.Expect(all).To(HaveLen(1), what)
		found = all[0]
		g.Expect(is(found)).To(BeTrue(), what)
	})
	return found
}

// awaitGroups waits until the workspace has these ClusterGroups.
func (a *clusterAPI) awaitGroups(want ...string) {
	a.t.Helper()
	eventually(a.t, func(g Gomega) {
		list := &fleet.ClusterGroupList{}
		g.Expect(a.hub.List(a.t.Context(), client.ClusterGroups, a.workspace, list)).To(Succeed())
		var names []string
		for _, group := range list.Items {
			names = append(names, group.Name)
		}
		g.Expect(names).To(Equal(want))
	})
}

// follows reports whether the condition FollowsClusterAPI has a reason; an empty one is success.
func follows(reason string) func(fleet.Cluster) bool {
	return func(c fleet.Cluster) bool {
		condition := conditions.Get(c.Status.Conditions, conditions.FollowsClusterAPI)
		return condition != nil && condition.Reason == reason && (condition.Status == corev1.ConditionTrue) == (reason == "")
	}
}

// The controllers run with the rights of the chart. The CRD of Cluster API is installed after they start.
func TestClusterAPICluster_FromRegistrationToDeletion(t *testing.T) {
	g, a := NewWithT(t), startClusterAPI(t, "ws-capi")
	a.configure(map[string]any{"enabled": true, "clusterSelector": map[string]any{"matchLabels": map[string]any{"fleet": "join"}}})
	a.installCRD() // after the controllers look for it

	other := a.create("other", nil)
	uid := a.create("c1", map[string]string{"fleet": "join", "env": "dev"})
	a.awaitEvent(other, conditions.ReasonNotSelected)
	a.awaitEvent(uid, conditions.ReasonAwaitingControlPlane)
	a.initialize("c1")
	a.awaitEvent(uid, conditions.ReasonKubeconfigMissing)
	a.writeKubeconfig("c1", func(s *corev1.Secret) { s.Type, s.OwnerReferences = "cluster.x-k8s.io/secret", nil })
	g.Consistently(a.registered).WithTimeout(300 * time.Millisecond).Should(BeEmpty())
	a.writeKubeconfig("c1")
	c := a.await("registered", follows(""))
	g.Expect(c.Name).To(Equal("c1"))
	g.Expect(c.Spec.KubeConfigSecret).To(Equal("c1-kubeconfig"))
	g.Expect(c.OwnerReferences).To(BeEmpty())
	g.Expect(c.Labels).To(Equal(map[string]string{"fleet": "join", "env": "dev"}))
	awaitImported(t, a.hub, &c, "")

	if err := a.hub.Patch(t.Context(), client.Clusters, a.workspace, "c1", []byte(`{"metadata":{"labels":{"own":"x"}}}`)); err != nil {
		t.Fatal(err)
	}
	a.patch("c1", `{"metadata":{"labels":{"env":null,"stage":"two"}}}`)
	a.await("labels follow", func(c fleet.Cluster) bool {
		return len(c.Labels) == 3 && c.Labels["own"] == "x" && c.Labels["stage"] == "two" && c.Labels["fleet"] == "join"
	})

	a.patch("c1", `{"spec":{"topology":{"classRef":{"name":"small"},"version":"v1.36.3","variables":[{"name":"replicas","value":3}]}}}`)
	classed := a.await("values follow", func(c fleet.Cluster) bool {
		return c.Spec.TemplateValues != nil && c.Labels[fleet.LabelCAPIClass] == "small"
	})
	g.Expect(classed.Spec.TemplateValues.Data).To(HaveKeyWithValue("capi", map[string]any{
		"version": "v1.36.3", "class": map[string]any{"namespace": a.workspace, "name": "small"}, "variables": map[string]any{"replicas": int64(3)},
	}))
	a.awaitGroups("small")
	a.patch("c1", `{"spec":{"topology":null}}`)
	a.awaitGroups()
	a.await("values go", func(c fleet.Cluster) bool {
		return c.Spec.TemplateValues == nil || len(c.Spec.TemplateValues.Data) == 0
	})

	a.patch("c1", `{"metadata":{"labels":{"fleet":"no"}}}`)
	a.await("not selected", follows(conditions.ReasonNotSelected))
	a.patch("c1", `{"metadata":{"labels":{"fleet":"join"}},"spec":{"paused":true}}`)
	a.await("paused", follows(conditions.ReasonClusterPaused))
	a.patch("c1", `{"spec":{"paused":false}}`)
	a.await("continues", follows(""))

	a.delete("c1") // and within a second another one of the name
	uid = a.create("c1", map[string]string{"fleet": "join"})
	a.initialize("c1")
	second := a.await("recreated", func(c fleet.Cluster) bool {
		return strings.HasSuffix(c.Annotations[annotation.CAPICluster], "/"+string(uid)) && c.DeletionTimestamp == nil
	})
	g.Expect(second.UID).NotTo(Equal(c.UID))

	a.await("imported", func(c fleet.Cluster) bool { // so that it is recorded which cluster it is
		imported := conditions.Get(c.Status.Conditions, conditions.Imported)
		return imported != nil && imported.Status == corev1.ConditionTrue
	})
	a.patch("c1", `{"spec":{"paused":true}}`)
	a.await("paused before it is moved", follows(conditions.ReasonClusterPaused))
	a.delete("c1")
	uid = a.create("c1", map[string]string{"fleet": "join"}) // moved back
	a.initialize("c1")
	third := a.await("moved back", func(c fleet.Cluster) bool {
		return strings.HasSuffix(c.Annotations[annotation.CAPICluster], "/"+string(uid)) && follows("")(c)
	})
	g.Expect(third.UID).To(Equal(second.UID))

	a.delete("c1")
	eventually(t, func(g Gomega) { g.Expect(a.registered()).To(BeEmpty()) })
}

// An import with another Secret is the same cluster, which the hub finds out before it creates anything. In another
// workspace, it creates nothing, and does not say where it is.
func TestClusterAPI_RecognizesAClusterThatIsRegistered(t *testing.T) {
	g, a := NewWithT(t), startClusterAPI(t, "ws-capi-twice")
	a.configure(map[string]any{"enabled": true})
	a.installCRD()
	a.writeKubeconfig("own", func(s *corev1.Secret) { s.Name = "own" })
	byHand := newImport(t, a.hub, a.workspace, "mine", func(c *fleet.Cluster) { c.Spec.KubeConfigSecret, c.Spec.AgentNamespace = "own", "capi-twice" })
	before := awaitImported(t, a.hub, byHand, "")
	a.writeKubeconfig("c4")
	uid := a.create("c4", nil)
	a.initialize("c4")
	a.awaitEvent(uid, conditions.ReasonImportedTwice)
	noted := a.await("noted", func(c fleet.Cluster) bool { return c.Annotations[annotation.CAPIImported] == string(uid) })
	g.Expect(noted.UID).To(Equal(byHand.UID))
	g.Expect(noted.Generation).To(Equal(before.Generation))

	// A kubeconfig with a command is refused, by the import and where it always is.
	a.writeKubeconfig("c5", func(s *corev1.Secret) {
		s.Data["value"] = []byte("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://a.example'}}], users: [{name: u, user: {exec: {command: touch, args: [/tmp/x], apiVersion: client.authentication.k8s.io/v1}}}]}")
	})
	a.create("c5", nil)
	a.initialize("c5")
	eventually(t, func(g Gomega) {
		c := &fleet.Cluster{}
		g.Expect(a.hub.Get(t.Context(), client.Clusters, a.workspace, "c5", c)).To(Succeed())
		imported := conditions.Get(c.Status.Conditions, conditions.Imported)
		g.Expect(imported).NotTo(BeNil())
		g.Expect(imported.Reason).To(Equal(conditions.ReasonKubeconfigRefused))
	})
	a.delete("c4")
	a.delete("c5")
	a.await("only the user's stays", func(c fleet.Cluster) bool { return c.UID == byHand.UID && c.DeletionTimestamp == nil })
}

// A Cluster that a user imported by hand is noted and otherwise left as it is, also when the cluster is deleted.
func TestClusterAPI_LeavesImportsByHandAlone(t *testing.T) {
	g, a := NewWithT(t), startClusterAPI(t, "ws-capi-hand")
	a.configure(map[string]any{"enabled": true})
	a.installCRD()
	a.writeKubeconfig("c2")
	byHand := newImport(t, a.hub, a.workspace, "mine", func(c *fleet.Cluster) { c.Spec.KubeConfigSecret, c.Spec.AgentNamespace = "c2-kubeconfig", "capi-hand" })
	before := awaitImported(t, a.hub, byHand, "")
	uid := a.create("c2", nil)
	a.initialize("c2")
	a.awaitEvent(uid, conditions.ReasonImportedTwice)
	noted := a.await("noted", func(c fleet.Cluster) bool { return c.Annotations[annotation.CAPIImported] == string(uid) })
	g.Expect(noted.Generation).To(Equal(before.Generation))
	g.Expect(noted.Labels).To(Equal(before.Labels))

	a.delete("c2")
	marker := a.create("c3", nil)
	a.awaitEvent(marker, conditions.ReasonAwaitingControlPlane) // a later event, so that the deletion was seen
	a.await("still there", func(c fleet.Cluster) bool { return c.UID == byHand.UID && c.DeletionTimestamp == nil })
}
