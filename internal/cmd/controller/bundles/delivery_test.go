package bundles_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestBundle_IsDeployedToItsClusters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"one", "two", "three"}
	for _, name := range names {
		w.cluster(t, name, map[string]string{"n": name})
	}
	b := w.bundle(t, "web", everywhere, values("name", "${ .ClusterLabels.n }"))
	for _, name := range names {
		bd := w.deployment(t, "web", name, "its BundleDeployment", exists)
		manifestID := content.Manifest{Resources: b.Spec.Resources}.ID()
		if id, _ := content.SplitDeploymentID(bd.Spec.DeploymentID); id != manifestID || bd.Labels[fleet.LabelContentName] != manifestID {
			t.Errorf("%s: deployment ID %s and label %s, want manifest %s", name, bd.Spec.DeploymentID, bd.Labels[fleet.LabelContentName], manifestID)
		}
		w.expectValues(t, bd, `{"name":"`+name+`"}`)
	}
	b = w.bundleThat(t, "web", "its finalizer", func(b *fleet.Bundle) bool { return slices.Contains(b.Finalizers, fleet.FinalizerBundle) })
	stored := w.contentThat(t, content.Manifest{Resources: b.Spec.Resources}.ID(), func(c *fleet.Content) bool { return c.Status.ReferenceCount == 3 })
	if _, err := content.Read(stored); err != nil {
		t.Error(err)
	}
}

// expectValues expects the values in a BundleDeployment, and no Secret.
func (w *world) expectValues(t *testing.T, bd *fleet.BundleDeployment, want string) {
	t.Helper()
	if bd.Spec.ValuesHash != "" || !hasValues(want)(bd) {
		t.Errorf("values %v and %v, hash %q; want %s", bd.Spec.Options.Helm, bd.Spec.StagedOptions.Helm, bd.Spec.ValuesHash, want)
	}
	NewWithT(t).Eventually(func(g Gomega) {
		_, err := w.Kube.CoreV1().Secrets(bd.Namespace).Get(t.Context(), bd.Name, metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
}

// hasValues returns a condition that is true for a BundleDeployment with these values.
func hasValues(want string) func(*fleet.BundleDeployment) bool {
	return func(bd *fleet.BundleDeployment) bool {
		for _, options := range []fleet.BundleDeploymentOptions{bd.Spec.Options, bd.Spec.StagedOptions} {
			if text, err := delivery.TakeValues(&options); err != nil || string(text) != want {
				return false
			}
		}
		return true
	}
}

// confidential stores the values of a Bundle in its Secret, and lets the Bundle refer to them.
func (w *world) confidential(t *testing.T, bundle, values string) func(*fleet.Bundle) {
	t.Helper()
	data := map[string][]byte{delivery.KeyBundleValues: []byte(values)}
	secrets := w.Kube.CoreV1().Secrets(w.workspace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: bundle}, Type: fleet.SecretTypeBundleValues, Data: data}
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	must(t, err)
	return func(b *fleet.Bundle) { b.Spec.ValuesHash = delivery.BundleValuesHash(data) }
}

// expectSecret waits for the values of a BundleDeployment and its owner.
func (w *world) expectSecret(t *testing.T, bd *fleet.BundleDeployment, want string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		secret, err := w.Kube.CoreV1().Secrets(bd.Namespace).Get(t.Context(), bd.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(secret.OwnerReferences).To(HaveExactElements(HaveField("UID", bd.UID)))
		g.Expect(delivery.ReadValues(secret)).To(Equal(delivery.Values{Current: []byte(want), Staged: []byte(want)}))
		g.Expect(delivery.ReadValues(secret).Hash()).To(Equal(bd.Spec.ValuesHash))
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
}

func (w *world) contentThat(t *testing.T, name string, done func(*fleet.Content) bool) *fleet.Content {
	t.Helper()
	c, err := client.Until(t.Context(), client.Await{From: w.Fleet, Resource: "contents", Name: name, For: "its content", Within: patience}, done)
	must(t, err)
	return c
}

// expectGone waits until a BundleDeployment is no longer there.
func (w *world) expectGone(t *testing.T, bundle, cluster string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		err := w.Get(t.Context(), client.BundleDeployments, w.namespaceOf(cluster), bundle, &fleet.BundleDeployment{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "BundleDeployment %s in %s: %v", bundle, cluster, err)
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
}

// BenchmarkDelivery measures the time from the creation of a Bundle to BundleDeployments in three clusters, as an
// admin's client sees it.
func BenchmarkDelivery(b *testing.B) {
	w := newWorld(b)
	clusters := []string{"one", "two", "three"}
	for _, name := range clusters {
		w.cluster(b, name, map[string]string{"n": name})
	}
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprint("b", i)
		w.bundle(b, name, everywhere, values("name", "${ .ClusterLabels.n }"))
		for _, cluster := range clusters {
			for w.Get(b.Context(), client.BundleDeployments, w.namespaceOf(cluster), name, &fleet.BundleDeployment{}) != nil {
				if b.Context().Err() != nil {
					b.Fatal(b.Context().Err())
				}
			}
		}
	}
}

func TestClusterLabelsChange_BundleFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"env": "prod"})
	w.cluster(t, "two", map[string]string{"env": "dev"})
	w.bundle(t, "web", func(b *fleet.Bundle) {
		b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}
	})
	first := w.deployment(t, "web", "one", "the one that matches", exists)

	w.patch(t, client.Clusters, "two", map[string]any{"metadata": map[string]any{"labels": map[string]any{"env": "prod"}}})
	w.deployment(t, "web", "two", "one that matches now", exists)
	w.patch(t, client.Clusters, "one", map[string]any{"metadata": map[string]any{"labels": map[string]any{"env": nil}}})
	w.expectGone(t, "web", "one")

	w.patch(t, client.Clusters, "one", map[string]any{"metadata": map[string]any{"labels": map[string]any{"env": "prod"}}})
	again := w.deployment(t, "web", "one", "the first again", func(bd *fleet.BundleDeployment) bool { return bd.UID != first.UID })

	must(t, w.Delete(t.Context(), client.BundleDeployments, again.Namespace, again.Name))
	w.deployment(t, "web", "one", "one that somebody deleted", func(bd *fleet.BundleDeployment) bool { return bd.UID != again.UID })

	// A cluster that joins later.
	w.cluster(t, "three", map[string]string{"env": "prod"})
	w.deployment(t, "web", "three", "one that came later", exists)
}

func TestClusterGroupChanges_BundleFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"env": "prod"})
	w.bundle(t, "web", func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: "prod"}} })
	w.bundleThat(t, "web", "no cluster yet", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/0" })
	group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: "prod"}}
	group.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	must(t, w.Create(t.Context(), client.ClusterGroups, group))
	w.deployment(t, "web", "one", "that of a member", exists)
	w.patch(t, client.ClusterGroups, "prod", map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"env": "test"}}}})
	w.expectGone(t, "web", "one")
}

func TestBundleChanges_DeploymentIsUpdatedInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"n": "1"})
	w.bundle(t, "web", to("one"), values("a", 1))
	before := w.deployment(t, "web", "one", "the first state", exists)
	w.expectValues(t, before, `{"a":1}`)
	w.report(t, before, nil)

	w.patch(t, client.Bundles, "web", map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"team": "a", "fleet.cattle.io/created-by-display-name": "me"}},
		"spec":     map[string]any{"helm": map[string]any{"values": map[string]any{"a": 2}}},
	})
	after := w.deployment(t, "web", "one", "the new state", func(bd *fleet.BundleDeployment) bool {
		return bd.Spec.DeploymentID != before.Spec.DeploymentID && bd.Labels["team"] == "a" && bd.Labels[fleet.LabelCreatedByDisplayName] == ""
	})
	if after.UID != before.UID || after.Spec.StagedDeploymentID != after.Spec.DeploymentID {
		t.Errorf("the BundleDeployment was replaced, or not promoted: %+v", after)
	}
	if after.Status.AppliedDeploymentID != before.Spec.DeploymentID || !after.Status.Ready {
		t.Errorf("what the agent had reported is gone: %+v", after.Status)
	}
	w.expectValues(t, after, `{"a":2}`)
	w.report(t, after, nil)
	reported := w.deployment(t, "web", "one", "the next report", func(bd *fleet.BundleDeployment) bool {
		return bd.Status.AppliedDeploymentID == after.Spec.DeploymentID
	})
	if before.ManagedFields == nil || after.ManagedFields != nil || reported.ManagedFields != nil {
		t.Errorf("who wrote what is kept: at first %v, then %v, after a report %v", before.ManagedFields, after.ManagedFields, reported.ManagedFields)
	}

	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"helm": map[string]any{"values": nil}}})
	w.deployment(t, "web", "one", "no values", hasValues(""))
	// A Content that is still needed is brought back.
	manifest := content.Manifest{Resources: []fleet.BundleResource{{Name: "cm.yaml", Content: "# " + w.workspace + "/web\n"}}}
	stored := w.contentThat(t, manifest.ID(), func(*fleet.Content) bool { return true })
	must(t, w.Fleet.Delete().Resource("contents").Name(stored.Name).Do(t.Context()).Error())
	w.contentThat(t, manifest.ID(), func(c *fleet.Content) bool { return c.UID != stored.UID && c.Status.ReferenceCount == 1 })
}

func TestPausedBundle_ChangesAreStaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"n": "1"})
	w.bundle(t, "web", to("one"), w.confidential(t, "web", `{"a":1}`))
	before := w.deployment(t, "web", "one", "the first state", exists)
	w.expectSecret(t, before, `{"a":1}`)
	deployed := []any{map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "namespace": "web", "name": "web"}}
	w.report(t, before, map[string]any{"appliedDeploymentID": before.Spec.DeploymentID, "ready": true, "nonModified": true, "resources": deployed})
	w.deployment(t, "web", "one", "the report", func(bd *fleet.BundleDeployment) bool { return bd.Status.Display.State == "Ready" })
	next := &fleet.Bundle{}
	w.confidential(t, "web", `{"a":2}`)(next)
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"paused": true, "valuesHash": next.Spec.ValuesHash}})
	staged := w.deployment(t, "web", "one", "the staged state", func(bd *fleet.BundleDeployment) bool {
		return bd.Spec.Paused && bd.Spec.StagedDeploymentID != before.Spec.StagedDeploymentID
	})
	if staged.Spec.DeploymentID != before.Spec.DeploymentID || staged.Spec.WaitingForValues {
		t.Errorf("a change reached the agent while paused: %+v", staged.Spec)
	}
	shown := w.deployment(t, "web", "one", "that it is out of sync", func(bd *fleet.BundleDeployment) bool { return bd.Status.Display.State == "OutOfSync" })
	if len(shown.Status.Resources) != 1 || shown.Status.Resources[0].Name != "web" {
		t.Errorf("what the agent has reported is %+v now", shown.Status.Resources)
	}
	secret, err := w.Kube.CoreV1().Secrets(staged.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	want := delivery.Values{Current: []byte(`{"a":1}`), Staged: []byte(`{"a":2}`)}
	NewWithT(t).Expect(delivery.ReadValues(secret)).To(Equal(want))

	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"paused": false}})
	promoted := w.deployment(t, "web", "one", "the promoted state", func(bd *fleet.BundleDeployment) bool {
		return !bd.Spec.Paused && bd.Spec.DeploymentID == staged.Spec.StagedDeploymentID
	})
	w.expectSecret(t, promoted, `{"a":2}`)
}

// An agent deploys again only if the deployment ID changes.
func TestValuesThatMoveToASecretAndBack_AreNotDeployedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.bundle(t, "web", to("one"), values("a", 1))
	plain := w.deployment(t, "web", "one", "plain values", exists)
	w.expectValues(t, plain, `{"a":1}`)
	hidden := &fleet.Bundle{}
	w.confidential(t, "web", `{"a":1}`)(hidden)
	spec := func(hash, helm any) map[string]any {
		return map[string]any{"spec": map[string]any{"valuesHash": hash, "helm": helm}}
	}
	w.patch(t, client.Bundles, "web", spec(hidden.Spec.ValuesHash, nil))
	secret := w.deployment(t, "web", "one", "values in a Secret", func(bd *fleet.BundleDeployment) bool { return bd.Spec.ValuesHash != "" })
	w.expectSecret(t, secret, `{"a":1}`)
	if !hasValues("")(secret) {
		t.Errorf("the values stay visible: %v", secret.Spec.Options.Helm)
	}
	w.patch(t, client.Bundles, "web", spec(nil, map[string]any{"values": map[string]any{"a": 1}}))
	w.patch(t, client.Bundles, "web", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}})
	back := w.deployment(t, "web", "one", "the label that was changed later", func(bd *fleet.BundleDeployment) bool { return bd.Labels["team"] == "a" })
	for state, bd := range map[string]*fleet.BundleDeployment{"in a Secret": secret, "plain again": back} {
		if bd.UID != plain.UID || bd.Spec.DeploymentID != plain.Spec.DeploymentID {
			t.Errorf("%s: UID %s and ID %s, want %s and %s", state, bd.UID, bd.Spec.DeploymentID, plain.UID, plain.Spec.DeploymentID)
		}
	}
	// The next deployment takes them out of the Secret.
	w.patch(t, client.Bundles, "web", spec(nil, map[string]any{"values": map[string]any{"a": 2}}))
	w.expectValues(t, w.deployment(t, "web", "one", "other values", hasValues(`{"a":2}`)), `{"a":2}`)
}

// Rancher Fleet's hub has every value in a Secret. The agents keep what they have until the next deployment.
func TestValuesOfRancherFleetsHub_LeaveTheSecretWithTheNextDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.bundle(t, "web", to("one"), values("a", 1), func(b *fleet.Bundle) { b.Spec.Paused = true })
	bd := w.deployment(t, "web", "one", "the staged state", exists)
	theirs := delivery.Values{Current: []byte(`{"a":1}`), Staged: []byte(`{"a":1}`)}
	_, err := w.Kube.CoreV1().Secrets(bd.Namespace).Create(t.Context(), theirs.Secret(bd), metav1.CreateOptions{FieldManager: "fleetcontroller"})
	must(t, err)
	body, err := json.Marshal(map[string]any{"spec": map[string]any{
		"deploymentID": bd.Spec.StagedDeploymentID, "valuesHash": theirs.Hash(),
		"options": map[string]any{"helm": map[string]any{"values": nil}}, "stagedOptions": map[string]any{"helm": map[string]any{"values": nil}},
	}})
	must(t, err)
	must(t, w.Patch(t.Context(), client.BundleDeployments, bd.Namespace, bd.Name, body))
	// A hub that has not seen this yet decides about the label with plain values.
	w.deployment(t, "web", "one", "that the hub has seen the change", func(bd *fleet.BundleDeployment) bool { return bd.Status.Display.State == "WaitApplied" })
	w.patch(t, client.Bundles, "web", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}})
	taken := w.deployment(t, "web", "one", "the label", func(bd *fleet.BundleDeployment) bool { return bd.Labels["team"] == "a" })
	w.expectSecret(t, taken, `{"a":1}`)
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"paused": false, "helm": map[string]any{"values": map[string]any{"a": 2}}}})
	w.expectValues(t, w.deployment(t, "web", "one", "its next deployment", hasValues(`{"a":2}`)), `{"a":2}`)
}

// Agents of other implementations do not report that their values are damaged.
func TestADamagedValuesSecret_IsWrittenAgainWithoutAReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.bundle(t, "web", everywhere, w.confidential(t, "web", `{"a":1}`))
	bd := w.deployment(t, "web", "one", "its BundleDeployment", exists)
	w.expectSecret(t, bd, `{"a":1}`)
	secrets := w.Kube.CoreV1().Secrets(bd.Namespace)
	patch := func(text string) func() error {
		return func() error {
			_, err := secrets.Patch(t.Context(), "web", types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "kubectl-edit"})
			return err
		}
	}
	for _, damage := range []struct {
		what string
		do   func() error
	}{
		{"other values", patch(`{"data":{"values":"e30="}}`)},
		{"no values", patch(`{"data":{"values":null}}`)},
		{"an additional key", patch(`{"data":{"more":"e30="}}`)},
		{"no Secret", func() error { return secrets.Delete(t.Context(), "web", metav1.DeleteOptions{}) }},
	} {
		t.Log(damage.what)
		must(t, damage.do())
		w.expectSecret(t, bd, `{"a":1}`)
	}
}

func TestDeletedBundle_DeploymentsAndValuesAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"n": "1"})
	w.cluster(t, "two", nil)
	w.bundle(t, "web", everywhere, values("a", 1))
	w.deployment(t, "web", "one", "the first", exists)
	w.deployment(t, "web", "two", "the second", exists)
	must(t, w.Delete(t.Context(), client.Bundles, w.workspace, "web"))
	NewWithT(t).Eventually(func(g Gomega) {
		err := w.Get(t.Context(), client.Bundles, w.workspace, "web", &fleet.Bundle{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Bundle: %v", err)
		for _, cluster := range []string{"one", "two"} {
			err := w.Get(t.Context(), client.BundleDeployments, w.namespaceOf(cluster), "web", &fleet.BundleDeployment{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "in %s: %v", cluster, err)
			_, err = w.Kube.CoreV1().Secrets(w.namespaceOf(cluster)).Get(t.Context(), "web", metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "values in %s: %v", cluster, err)
		}
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
}

// Other controllers revoke the rights of the agent and delete the namespace first.
func TestClusterBeingDeleted_KeepsItsDeployments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.workspace, Name: "one", Labels: map[string]string{"n": "1"}, Finalizers: []string{fleet.FinalizerCluster},
	}}
	must(t, w.Create(t.Context(), client.Clusters, c))
	must(t, w.EnsureNamespace(t.Context(), w.namespaceOf("one")))
	w.patchStatus(t, client.Clusters, w.workspace, "one", map[string]any{"namespace": w.namespaceOf("one")})
	w.cluster(t, "two", nil)
	w.bundle(t, "web", everywhere)
	before := w.deployment(t, "web", "one", "the one that stays", exists)
	w.deployment(t, "web", "two", "the other", exists)

	must(t, w.Delete(t.Context(), client.Clusters, w.workspace, "one"))
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"forceSyncGeneration": 2}})
	w.deployment(t, "web", "two", "the change", func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.ForceSyncGeneration == 2 })
	w.bundleThat(t, "web", "one cluster less", func(b *fleet.Bundle) bool { return b.Status.Summary.DesiredReady == 1 })
	after := w.deployment(t, "web", "one", "the one that stays", exists)
	if after.ResourceVersion != before.ResourceVersion && (after.Spec.DeploymentID != before.Spec.DeploymentID || after.DeletionTimestamp != nil) {
		t.Errorf("the BundleDeployment of a deleted Cluster was touched: %+v", after)
	}

	w.patch(t, client.Clusters, "one", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	w.expectGone(t, "web", "one")
}

func TestBundleDeployment_HasLabelsOfBundleAndCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	b := w.bundle(t, "web", to("one"), func(b *fleet.Bundle) { b.Labels = map[string]string{"team": "a", "objectset.rio.cattle.io/hash": "h"} })
	bd := w.deployment(t, "web", "one", "its BundleDeployment", exists)
	want := map[string]string{
		"team": "a", "fleet.cattle.io/managed": "true", "fleet.cattle.io/bundle-name": "web", "fleet.cattle.io/bundle-namespace": w.workspace,
		"fleet.cattle.io/cluster": "one", "fleet.cattle.io/cluster-namespace": w.workspace,
		"fleet.cattle.io/content-name": content.Manifest{Resources: b.Spec.Resources}.ID(),
	}
	if !maps.Equal(want, bd.Labels) {
		t.Errorf("labels = %v, want %v", bd.Labels, want)
	}
}
