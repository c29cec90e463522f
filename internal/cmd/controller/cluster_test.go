package controller_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// newCluster creates a Cluster and returns it once it has its namespace.
func newCluster(t *testing.T, hub *client.Client, workspace, name string) *fleet.Cluster {
	t.Helper()
	created := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name}, Spec: fleet.ClusterSpec{ClientID: name}}
	if err := hub.Create(t.Context(), client.Clusters, created); err != nil {
		t.Fatal(err)
	}
	return settled(t, hub, workspace, name)
}

func settled(t *testing.T, hub *client.Client, workspace, name string) *fleet.Cluster {
	t.Helper()
	found := &fleet.Cluster{}
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.Clusters, workspace, name, found)).To(Succeed())
		g.Expect(found.Status.Namespace).NotTo(BeEmpty())
		processed := conditions.Get(found.Status.Conditions, conditions.Processed)
		g.Expect(processed).NotTo(BeNil())
		g.Expect(processed.Status).To(Equal(corev1.ConditionTrue))
	}).WithTimeout(patience).Should(Succeed())
	return found
}

func TestCluster_GetsANamespace(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	cluster := newCluster(t, hub, workspace(t, hub, "ws-namespace"), "c1")
	g.Expect(cluster.Status.Namespace).To(Equal(names.ClusterNamespace("ws-namespace", "c1")))
	g.Expect(cluster.Finalizers).To(Equal([]string{fleet.FinalizerCluster}))
	processed := conditions.Get(cluster.Status.Conditions, conditions.Processed)
	g.Expect(processed.LastUpdateTime).NotTo(BeEmpty())
	g.Expect(*processed).To(Equal(genericcondition.GenericCondition{Type: "Processed", Status: "True", LastUpdateTime: processed.LastUpdateTime}))

	namespace, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), cluster.Status.Namespace, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(namespace.Labels).To(Equal(map[string]string{"fleet.cattle.io/managed": "true", "kubernetes.io/metadata.name": namespace.Name}))
	g.Expect(namespace.Annotations).To(Equal(map[string]string{"fleet.cattle.io/cluster": "c1", "fleet.cattle.io/cluster-namespace": "ws-namespace"}))
}

// Who made the namespace could read what is put there, so it is refused until it is marked for the Cluster.
func TestANamespaceThatIsThere_IsUsedOnceItIsMarked(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	workspace(t, hub, "ws-there")
	name := workspace(t, hub, names.ClusterNamespace("ws-there", "c1"))
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws-there", Name: "c1"}, Spec: fleet.ClusterSpec{ClientID: "c1"}}
	g.Expect(hub.Create(t.Context(), client.Clusters, cluster)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.Clusters, "ws-there", "c1", cluster)).To(Succeed())
		processed := conditions.Get(cluster.Status.Conditions, conditions.Processed)
		g.Expect(processed).NotTo(BeNil())
		g.Expect(processed.Reason).To(Equal("NamespaceTaken"))
	}).WithTimeout(patience).Should(Succeed())
	g.Expect(cluster.Status.Namespace).To(BeEmpty())
	marks := `{"metadata":{"annotations":{"fleet.cattle.io/cluster":"c1","fleet.cattle.io/cluster-namespace":"ws-there"}}}`
	_, err := hub.Kube.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType, []byte(marks), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.Clusters, "ws-there", "c1", cluster)).To(Succeed())
		g.Expect(cluster.Status.Namespace).To(Equal(name))
	}).WithTimeout(patience).Should(Succeed())
	namespace, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(namespace.Labels).NotTo(HaveKey(fleet.LabelManaged)) // it is not ours to clean up
}

func TestDeletedNamespace_IsCreatedAgain(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	cluster := newCluster(t, hub, workspace(t, hub, "ws-anew"), "c1")
	namespaces := hub.Kube.CoreV1().Namespaces()
	before, err := namespaces.Get(t.Context(), cluster.Status.Namespace, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(namespaces.Delete(t.Context(), cluster.Status.Namespace, metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func(g Gomega) {
		after, err := namespaces.Get(t.Context(), cluster.Status.Namespace, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(after.UID).NotTo(Equal(before.UID))
	}).WithTimeout(patience).Should(Succeed())
	settled(t, hub, "ws-anew", "c1")
}

func TestClusterOfAnotherManager_IsNotTouched(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	workspace(t, hub, "ws-theirs")
	theirs := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws-theirs", Name: "theirs", Labels: map[string]string{fleet.LabelClusterManagement: "somebody"},
	}}
	g.Expect(hub.Create(t.Context(), client.Clusters, theirs)).To(Succeed())
	newCluster(t, hub, "ws-theirs", "ours") // handled after theirs
	g.Expect(hub.Get(t.Context(), client.Clusters, "ws-theirs", "theirs", theirs)).To(Succeed())
	g.Expect(theirs.Status.Namespace).To(BeEmpty())
	g.Expect(theirs.Finalizers).To(BeEmpty())
}

// An agent may write its Cluster's status. What it says there of a namespace gives it no rights in that one, brings
// nothing there, and takes nothing from its own.
func TestNamespaceInStatus_IsIgnored(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-astray")
	astray, victim := join(t, hub, ws, "astray"), join(t, hub, ws, "victim")
	before := deploymentsIn(t, hub, astray.namespace)
	said := `{"status":{"namespace":"` + victim.namespace + `"}}`
	g.Expect(hub.Fleet.Patch(types.MergePatchType).Namespace(ws).Resource(client.Clusters).Name("astray").SubResource("status").Body([]byte(said)).Do(t.Context()).Error()).To(Succeed())
	g.Eventually(func(g Gomega) {
		cluster := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, ws, "astray", cluster)).To(Succeed())
		g.Expect(cluster.Status.Namespace).To(Equal(astray.namespace))
	}).WithTimeout(patience).Should(Succeed())
	later := join(t, hub, ws, "later") // handled after that
	g.Expect(later.namespace).NotTo(BeEmpty())

	roles, err := hub.Kube.RbacV1().RoleBindings(victim.namespace).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, role := range roles.Items {
		for _, subject := range role.Subjects {
			g.Expect(subject.Namespace).NotTo(Equal(astray.namespace))
		}
		g.Expect(role.Name).NotTo(HavePrefix(astray.request))
	}
	for _, bd := range deploymentsIn(t, hub, victim.namespace) {
		g.Expect(bd.Labels).To(HaveKeyWithValue(fleet.LabelCluster, "victim"))
	}
	g.Expect(uidsOf(deploymentsIn(t, hub, astray.namespace))).To(Equal(uidsOf(before)))
	for _, member := range []string{"astray", "victim", "later"} { // none of their agents reports again
		g.Expect(hub.Delete(t.Context(), client.Clusters, ws, member)).To(Succeed())
	}
}

// A tenant labels its own Cluster as another manager's, and its agent writes the status. Nothing of another tenant's
// cluster changes, neither then nor when the attacker's Cluster is deleted.
func TestALabelledCluster_ReachesNoOtherNamespace(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	attacker := join(t, hub, workspace(t, hub, "ws-attacker"), "attacker")
	victim := join(t, hub, workspace(t, hub, "ws-victim"), "victim")
	accounts, bindings := hub.Kube.CoreV1().ServiceAccounts(victim.namespace), hub.Kube.RbacV1().RoleBindings(victim.namespace)
	accountsBefore, err := accounts.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	bindingsBefore, err := bindings.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	deploymentsBefore := deploymentsIn(t, hub, victim.namespace)

	write := func(subresource, body string) {
		t.Helper()
		patch := hub.Fleet.Patch(types.MergePatchType).Namespace(attacker.workspace).Resource(client.Clusters).Name(attacker.name)
		if subresource != "" {
			patch = patch.SubResource(subresource)
		}
		g.Expect(patch.Body([]byte(body)).Do(t.Context()).Error()).To(Succeed())
	}
	write("", `{"metadata":{"labels":{"fleet.cattle.io/cluster-management":"attacker"}}}`)
	write("status", `{"status":{"namespace":"`+victim.namespace+`"}}`)
	request := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: attacker.workspace, Name: "another", Labels: map[string]string{fleet.LabelRegistrationToken: "t1"}},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: attacker.name, ClientRandom: "another"},
	}
	g.Expect(hub.Create(t.Context(), client.ClusterRegistrations, request)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, attacker.workspace, "another", request)).To(Succeed())
		said := conditions.Get(request.Status.Conditions, conditions.Granted)
		g.Expect(said).NotTo(BeNil())
		g.Expect(said.Reason).To(Equal("ClusterManagedElsewhere"))
	}).WithTimeout(patience).Should(Succeed())
	_, err = hub.Kube.CoreV1().Secrets(names.RegistrationNamespace(names.SystemNamespace)).Get(t.Context(), names.CredentialSecret(attacker.name, "another"), metav1.GetOptions{})
	g.Expect(err).To(MatchError(apierrors.IsNotFound, "is not found"))

	g.Expect(hub.Delete(t.Context(), client.Clusters, attacker.workspace, attacker.name)).To(Succeed())
	g.Eventually(func() error {
		return hub.Get(t.Context(), client.Clusters, attacker.workspace, attacker.name, &fleet.Cluster{})
	}).WithTimeout(patience).Should(MatchError(apierrors.IsNotFound, "is not found"))
	g.Eventually(func() error {
		_, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), attacker.namespace, metav1.GetOptions{})
		return err
	}).WithTimeout(patience).Should(MatchError(apierrors.IsNotFound, "is not found"))

	accountsAfter, err := accounts.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	bindingsAfter, err := bindings.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(accountsAfter.Items).To(Equal(accountsBefore.Items))
	g.Expect(bindingsAfter.Items).To(Equal(bindingsBefore.Items))
	g.Expect(uidsOf(deploymentsIn(t, hub, victim.namespace))).To(Equal(uidsOf(deploymentsBefore)))
	g.Expect(hub.Delete(t.Context(), client.Clusters, victim.workspace, victim.name)).To(Succeed())
}

// The holder of a token names its request after a Role and a RoleBinding of the workspace. They stay as they are, and the
// request gets no account that could use them. They stay when the request goes, too.
func TestARequestNamedAfterARole_ChangesNothing(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-role")
	joined := join(t, hub, ws, "victim")
	rights := hub.Kube.RbacV1()
	role, err := rights.Roles(ws).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "secret-reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	binding, err := rights.RoleBindings(ws).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view-all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "somebody"}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"secret-reader", "view-all"} {
		newCluster(t, hub, ws, name)
		request := &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: name, Labels: map[string]string{fleet.LabelRegistrationToken: "t1"}},
			Spec:       fleet.ClusterRegistrationSpec{ClientID: name, ClientRandom: "random"},
		}
		g.Expect(hub.Create(t.Context(), client.ClusterRegistrations, request)).To(Succeed())
		g.Eventually(func(g Gomega) {
			g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, name, request)).To(Succeed())
			said := conditions.Get(request.Status.Conditions, conditions.Granted)
			g.Expect(said).NotTo(BeNil())
			g.Expect(said.Reason).To(Equal("NameTaken"))
			g.Expect(said.Message).To(ContainSubstring("kubectl -n " + ws + " delete"))
		}).WithTimeout(patience).Should(Succeed())
		g.Expect(request.Status.Granted).To(BeFalse())
	}
	bindings, err := rights.RoleBindings(ws).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, b := range bindings.Items {
		g.Expect(b.RoleRef.Name).NotTo(Equal("secret-reader"), "bound by "+b.Name)
	}
	for _, name := range []string{"secret-reader", "view-all"} {
		g.Expect(hub.Delete(t.Context(), client.ClusterRegistrations, ws, name)).To(Succeed())
		g.Expect(hub.Delete(t.Context(), client.Clusters, ws, name)).To(Succeed())
		g.Eventually(func() error {
			_, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), names.ClusterNamespace(ws, name), metav1.GetOptions{})
			return err
		}).WithTimeout(patience).Should(MatchError(apierrors.IsNotFound, "is not found"))
	}
	roleAfter, err := rights.Roles(ws).Get(t.Context(), role.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(roleAfter.ResourceVersion).To(Equal(role.ResourceVersion))
	bindingAfter, err := rights.RoleBindings(ws).Get(t.Context(), binding.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bindingAfter.ResourceVersion).To(Equal(binding.ResourceVersion))
	g.Expect(hub.Delete(t.Context(), client.Clusters, ws, joined.name)).To(Succeed())
}

func TestDeletedCluster_DeletesItsNamespace(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	cluster := newCluster(t, hub, workspace(t, hub, "ws-leave"), "c1")
	namespace := cluster.Status.Namespace
	accounts := hub.Kube.CoreV1().ServiceAccounts(namespace)
	agent := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: "request-1", Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{
			fleet.AnnotationCluster: "c1", fleet.AnnotationClusterRegistration: "request", fleet.AnnotationClusterRegistrationNamespace: "ws-leave",
		},
	}}
	_, err := accounts.Create(t.Context(), agent, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	deployment := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "b1", Finalizers: []string{fleet.FinalizerBundleDeployment, "example.com/theirs"},
		Labels: map[string]string{fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "ws-leave"},
	}}
	g.Expect(hub.Create(t.Context(), client.BundleDeployments, deployment)).To(Succeed())

	g.Expect(hub.Delete(t.Context(), client.Clusters, "ws-leave", "c1")).To(Succeed())
	g.Eventually(func(g Gomega) {
		_, err := accounts.Get(t.Context(), "request-1", metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the agent has no rights any more")
		left := &fleet.BundleDeployment{}
		g.Expect(hub.Get(t.Context(), client.BundleDeployments, namespace, "b1", left)).To(Succeed())
		g.Expect(left.Finalizers).To(Equal([]string{"example.com/theirs"}))
		err = hub.Get(t.Context(), client.Clusters, "ws-leave", "c1", &fleet.Cluster{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Cluster does not wait for its namespace")
	}).WithTimeout(patience).Should(Succeed())
	g.Expect(hub.Patch(t.Context(), client.BundleDeployments, namespace, "b1", []byte(`{"metadata":{"finalizers":null}}`))).To(Succeed())
	g.Eventually(func(g Gomega) {
		_, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	}).WithTimeout(2 * patience).Should(Succeed())
}

func TestChangedKubeconfig_EnqueuesItsClusters(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	workspace(t, hub, "ws-secret")
	imported := func(reason string) {
		t.Helper()
		g.Eventually(func(g Gomega) {
			found := &fleet.Cluster{}
			g.Expect(hub.Get(t.Context(), client.Clusters, "ws-secret", "c1", found)).To(Succeed())
			condition := conditions.Get(found.Status.Conditions, conditions.Imported)
			g.Expect(condition).NotTo(BeNil())
			g.Expect(condition.Reason).To(Equal(reason))
		}).WithTimeout(patience).Should(Succeed())
	}
	cluster := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws-secret", Name: "c1"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "kc"},
	}
	g.Expect(hub.Create(t.Context(), client.Clusters, cluster)).To(Succeed())
	imported(conditions.ReasonKubeconfigMissing)
	secrets := hub.Kube.CoreV1().Secrets("ws-secret")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kc"}, Data: map[string][]byte{"value": []byte("- none")}}
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	imported(conditions.ReasonKubeconfigInvalid)
	g.Expect(secrets.Delete(t.Context(), "kc", metav1.DeleteOptions{})).To(Succeed())
	imported(conditions.ReasonKubeconfigMissing)
	g.Expect(hub.Delete(t.Context(), client.Clusters, "ws-secret", "c1")).To(Succeed()) // or it is tried again for ever
}

func deploymentsIn(t *testing.T, hub *client.Client, namespace string) []fleet.BundleDeployment {
	t.Helper()
	var list fleet.BundleDeploymentList
	if err := hub.List(t.Context(), client.BundleDeployments, namespace, &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func uidsOf(deployments []fleet.BundleDeployment) map[string]types.UID {
	uids := map[string]types.UID{}
	for _, bd := range deployments {
		uids[bd.Name] = bd.UID
	}
	return uids
}
