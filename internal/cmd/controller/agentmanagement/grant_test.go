package agentmanagement_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// agent is what an agent has after its registration.
type agent struct {
	// namespace is its own, downstream; empty: the usual one.
	namespace  string
	request    *fleet.ClusterRegistration
	secret     string // the credential's name
	credential protocol.Credential
	client     *client.Client
	took       time.Duration
}

// register asks with a token, and waits for the answer as an agent does: with what the token may read.
func register(t *testing.T, holder *client.Client, workspace, clientID, random string) agent {
	t.Helper()
	return registerWith(t, holder, newRequest(workspace, clientID, random, "t1"))
}

// registerWith is register with a request that was made up before.
func registerWith(t *testing.T, holder *client.Client, request *fleet.ClusterRegistration) agent {
	t.Helper()
	a := agent{request: request, secret: names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom)}
	eventually(t, func(g Gomega) {
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, a.request)).To(Succeed())
	})
	began := time.Now()
	eventually(t, func(g Gomega) {
		found, err := secret(t.Context(), holder, registration, a.secret)
		g.Expect(err).NotTo(HaveOccurred())
		a.credential, err = protocol.ParseCredential(found.Data)
		g.Expect(err).NotTo(HaveOccurred())
	})
	a.took = time.Since(began)
	a.client = reach(t, as(control.Plane(t).Hub, a.credential.Token))
	return a
}

// beat reports a heartbeat as the agent does.
func (a agent) beat(ctx context.Context, clusterName string, at time.Time) error {
	return a.beatUntil(ctx, clusterName, at, time.Time{})
}

// beatUntil reports a heartbeat of an agent whose credential expires.
func (a agent) beatUntil(ctx context.Context, clusterName string, at, expires time.Time) error {
	more := ""
	if !expires.IsZero() {
		more = fmt.Sprintf(`,"credentialExpires":%q`, expires.UTC().Format(time.RFC3339))
	}
	patch := fmt.Sprintf(`[{"op":"add","path":"/status/agent","value":{"lastSeen":%q,"namespace":%q%s}}]`, at.UTC().Format(time.RFC3339), cmp.Or(a.namespace, system), more)
	return a.client.Fleet.Patch(types.JSONPatchType).Namespace(a.request.Namespace).Resource(client.Clusters).Name(clusterName).
		SubResource("status").Param("fieldManager", protocol.HeartbeatManager(a.credential.Token)).Body([]byte(patch)).Do(ctx).Error()
}

// account is the agent's.
func (a agent) account() types.NamespacedName {
	return types.NamespacedName{Namespace: a.credential.DeploymentNamespace, Name: names.RequestAccount(a.request.Name, string(a.request.UID))}
}

// shares says whether the agent's account is in the ClusterRoleBinding by which it and others read Contents.
func (a agent) shares(ctx context.Context, g Gomega, hub *client.Client) bool {
	binding, err := hub.Kube.RbacV1().ClusterRoleBindings().Get(ctx, contentreaders.Binding(a.account()), metav1.GetOptions{})
	g.Expect(err).To(Or(Succeed(), notFound()))
	return contentreaders.Reads(binding, a.account())
}

func TestRequest_IsAnsweredWithACredential(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-grant")
	newToken(t, hub, ws, "t1", 0)
	newToken(t, hub, ws, "t2", 0)
	holder, stranger := bearer(t, valuesOf(t, hub, ws, "t1")), bearer(t, valuesOf(t, hub, ws, "t2"))
	a := register(t, holder, ws, "client", "random")
	t.Logf("the credential came after %s", a.took)

	cluster := &fleet.Cluster{}
	g.Expect(hub.Get(t.Context(), client.Clusters, ws, names.Cluster("client"), cluster)).To(Succeed())
	g.Expect(cluster.Spec.ClientID).To(Equal("client"))
	joinedWith := &fleet.ClusterRegistrationToken{}
	g.Expect(hub.Get(t.Context(), client.Tokens, ws, "t1", joinedWith)).To(Succeed())
	g.Expect(cluster.Labels).To(Equal(map[string]string{"env": "test", fleet.LabelCluster: cluster.Name, fleet.LabelTokenUID: string(joinedWith.UID)}))
	token := a.credential.Token
	g.Expect(a.credential).To(Equal(protocol.Credential{
		Token: token, DeploymentNamespace: cluster.Status.Namespace, ClusterNamespace: ws, ClusterName: cluster.Name, SystemNamespace: system,
	}))
	eventually(t, func(g Gomega) {
		found := &fleet.ClusterRegistration{}
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, a.request.Name, found)).To(Succeed())
		g.Expect(found.Status.Granted).To(BeTrue())
		g.Expect(found.Status.ClusterName).To(Equal(cluster.Name))
		g.Expect(found.OwnerReferences).To(HaveExactElements(HaveField("UID", cluster.UID)))
	})
	expectReadableByOne(t, holder, stranger, a)
	expectAgentRights(t, hub, a, cluster)
}

// expectReadableByOne fails unless the credential is read by the account that asked, and by no other.
func expectReadableByOne(t *testing.T, holder, stranger *client.Client, a agent) {
	t.Helper()
	g := NewWithT(t)
	one := metav1.ListOptions{FieldSelector: "metadata.name=" + a.secret}
	watching, err := holder.Kube.CoreV1().Secrets(registration).Watch(t.Context(), one)
	g.Expect(err).NotTo(HaveOccurred())
	defer watching.Stop()
	g.Eventually(watching.ResultChan()).WithTimeout(patience).Should(Receive(HaveField("Type", watch.Added)))

	nobody := reach(t, as(control.Plane(t).Hub, ""))
	for who, c := range map[string]*client.Client{"another token": stranger, "the agent": a.client, "nobody": nobody} {
		_, err := secret(t.Context(), c, registration, a.secret)
		g.Expect(err).To(forbidden(), who)
		_, err = c.Kube.CoreV1().Secrets(registration).Watch(t.Context(), one)
		g.Expect(err).To(forbidden(), who)
	}
	secrets := holder.Kube.CoreV1().Secrets(registration)
	_, err = secrets.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).To(forbidden())
	_, err = secrets.List(t.Context(), one)
	g.Expect(err).To(forbidden())
	_, err = secrets.Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).To(forbidden())
	g.Expect(secrets.Delete(t.Context(), a.secret, metav1.DeleteOptions{})).To(forbidden())
}

// expectAgentRights tries what an agent needs, which must work at once, and what it does not.
func expectAgentRights(t *testing.T, hub *client.Client, a agent, cluster *fleet.Cluster) {
	t.Helper()
	g, ctx, ns := NewWithT(t), t.Context(), a.credential.DeploymentNamespace
	g.Expect(a.client.List(ctx, client.BundleDeployments, ns, &fleet.BundleDeploymentList{})).To(Succeed())
	watching, err := a.client.Fleet.Get().Namespace(ns).Resource(client.BundleDeployments).VersionedParams(&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	watching.Stop()
	g.Expect(a.beat(ctx, cluster.Name, time.Now())).To(Succeed())
	_, err = a.client.Fleet.Get().Resource("contents").Name("s-1").Do(ctx).Raw()
	g.Expect(err).To(notFound())
	_, err = secret(ctx, a.client, ns, "options")
	g.Expect(err).To(notFound())

	neighbour := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "neighbour"}, Spec: fleet.ClusterSpec{ClientID: "neighbour"}}
	g.Expect(hub.Create(ctx, client.Clusters, neighbour)).To(Succeed())
	deployment := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}
	g.Expect(hub.Create(ctx, client.BundleDeployments, deployment)).To(Succeed())
	tried := map[string]error{
		"a neighbour's heartbeat":     a.beat(ctx, "neighbour", time.Now()),
		"changing its Cluster":        a.client.Patch(ctx, client.Clusters, cluster.Namespace, cluster.Name, []byte(`{"metadata":{"labels":{"env":"prod"}}}`)),
		"reading its Cluster":         a.client.Get(ctx, client.Clusters, cluster.Namespace, cluster.Name, &fleet.Cluster{}),
		"listing Clusters":            a.client.List(ctx, client.Clusters, cluster.Namespace, &fleet.ClusterList{}),
		"asking":                      a.client.Create(ctx, client.ClusterRegistrations, newRequest(cluster.Namespace, "c", "r", "t1")),
		"listing others' deployments": a.client.List(ctx, client.BundleDeployments, "", &fleet.BundleDeploymentList{}),
		"creating a deployment":       a.client.Create(ctx, client.BundleDeployments, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "y"}}),
		"changing a deployment":       a.client.Patch(ctx, client.BundleDeployments, ns, "x", []byte(`{"metadata":{"labels":{"a":"b"}}}`)),
		"deleting a deployment":       a.client.Delete(ctx, client.BundleDeployments, ns, "x"),
		"listing Bundles":             a.client.List(ctx, client.Bundles, cluster.Namespace, &fleet.BundleList{}),
	}
	_, tried["listing Secrets"] = a.client.Kube.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{})
	_, tried["listing Contents"] = a.client.Fleet.Get().Resource("contents").Do(ctx).Raw()
	for what, err := range tried {
		g.Expect(err).To(forbidden(), what)
	}
	status := a.client.Fleet.Patch(types.MergePatchType).Namespace(ns).Resource(client.BundleDeployments).Name("x").SubResource("status").Body([]byte(`{"status":{"appliedDeploymentID":"1"}}`))
	g.Expect(status.Do(ctx).Error()).To(Succeed())
}

func TestOlderRequest_IsRevokedWhenTheNewerIsUsed(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-superseded")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	cluster := names.Cluster("client-2")
	noon := time.Now().Add(-time.Hour)
	first := register(t, holder, ws, "client-2", "first")
	g.Expect(first.beat(t.Context(), cluster, noon)).To(Succeed())
	second := register(t, holder, ws, "client-2", "second")
	g.Expect(second.credential.ClusterName).To(Equal(cluster))
	eventually(t, func(g Gomega) {
		found := &fleet.ClusterRegistration{}
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, second.request.Name, found)).To(Succeed())
		g.Expect(found.Status.Granted).To(BeTrue())
	})
	// Granted, but not used: the first one's credential still works, and its use is not taken for the second one's.
	g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, first.request.Name, &fleet.ClusterRegistration{})).To(Succeed())
	g.Expect(first.client.List(t.Context(), client.BundleDeployments, first.credential.DeploymentNamespace, &fleet.BundleDeploymentList{})).To(Succeed())

	// The first one's agent goes on: its heartbeats say whose they are.
	g.Expect(first.beat(t.Context(), cluster, noon.Add(time.Minute))).To(Succeed())
	expectAsked(t, hub, ws, cluster)
	g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, first.request.Name, &fleet.ClusterRegistration{})).To(Succeed())

	g.Expect(second.beat(t.Context(), cluster, noon.Add(2*time.Minute))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, first.request.Name, &fleet.ClusterRegistration{})).To(notFound())
	})
	expectRevoked(t, hub, first)
	g.Expect(second.beat(t.Context(), cluster, noon.Add(3*time.Minute))).To(Succeed())
}

// Two agents of one client report in the same second. Their credentials expire at different times.
func TestAgentThatReportsInTheSecondOfTheFormerOne_IsRecognized(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-same-second")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	cluster := names.Cluster("client-3")
	now := time.Now()
	first := register(t, holder, ws, "client-3", "first")
	g.Expect(first.beatUntil(t.Context(), cluster, now, now.Add(time.Hour))).To(Succeed())
	second := register(t, holder, ws, "client-3", "second")
	g.Expect(second.beatUntil(t.Context(), cluster, now, now.Add(2*time.Hour))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, first.request.Name, &fleet.ClusterRegistration{})).To(notFound())
	})
	expectRevoked(t, hub, first)
}

// expectAsked waits until the controller has looked at the client's requests since now: one more is answered, which
// comes after what was woken before.
func expectAsked(t *testing.T, hub *client.Client, ws, cluster string) {
	t.Helper()
	live := &fleet.Cluster{}
	g := NewWithT(t)
	g.Expect(hub.Get(t.Context(), client.Clusters, ws, cluster, live)).To(Succeed())
	g.Expect(protocol.HeartbeatAccount(live)).NotTo(BeEmpty())
	register(t, bearer(t, valuesOf(t, hub, ws, "t1")), ws, "another of "+cluster, "random")
}

func TestTakeover_WaitsForTheOperator(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-takeover")
	newToken(t, hub, ws, "t1", 0)
	newToken(t, hub, ws, "t2", 0)
	cluster := names.Cluster("taken")
	first := register(t, bearer(t, valuesOf(t, hub, ws, "t1")), ws, "taken", "first")
	g.Expect(first.beat(t.Context(), cluster, time.Now().Add(-time.Hour))).To(Succeed())

	holder := bearer(t, valuesOf(t, hub, ws, "t2"))
	asks := newRequest(ws, "taken", "second", "t2")
	eventually(t, func(g Gomega) { // rights take a moment to be in force
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, asks)).To(Succeed())
	})
	eventually(t, func(g Gomega) {
		found := &fleet.ClusterRegistration{}
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, asks.Name, found)).To(Succeed())
		g.Expect(found.Status.Conditions).To(ContainElement(HaveField("Reason", conditions.ReasonTakeoverPending)))
		g.Expect(found.Status.Granted).To(BeFalse())
		g.Expect(found.OwnerReferences).To(BeEmpty())
	})
	_, err := hub.Kube.CoreV1().ServiceAccounts(first.credential.DeploymentNamespace).Get(t.Context(), names.RequestAccount(asks.Name, string(asks.UID)), metav1.GetOptions{})
	g.Expect(err).To(notFound())
	_, err = secret(t.Context(), holder, registration, names.CredentialSecret("taken", "second"))
	g.Expect(err).To(forbidden())
	g.Expect(first.beat(t.Context(), cluster, time.Now().Add(-time.Minute))).To(Succeed())

	confirm := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation.ConfirmTakeover, asks.Name)
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, cluster, []byte(confirm))).To(Succeed())
	second := agent{request: asks, secret: names.CredentialSecret("taken", "second")}
	eventually(t, func(g Gomega) {
		found, err := secret(t.Context(), holder, registration, second.secret)
		g.Expect(err).NotTo(HaveOccurred())
		second.credential, err = protocol.ParseCredential(found.Data)
		g.Expect(err).NotTo(HaveOccurred())
	})
	g.Expect(first.beat(t.Context(), cluster, time.Now().Add(-time.Second))).To(Succeed(), "until the other one is used")
	second.client = reach(t, as(control.Plane(t).Hub, second.credential.Token))
	g.Expect(second.beat(t.Context(), cluster, time.Now())).To(Succeed())
	expectRevoked(t, hub, first)
}

// Earlier agents send no label with the name of their token.
func TestAgentWithoutTokenName_ReadsItsAnswer(t *testing.T) {
	hub := hub(t)
	ws := workspace(t, hub, "ws-nameless")
	newToken(t, hub, ws, "t1", 0)
	newToken(t, hub, ws, "t2", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t2"))
	asks := newRequest(ws, "nameless", "random", "")
	eventually(t, func(g Gomega) {
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, asks)).To(Succeed())
	})
	eventually(t, func(g Gomega) {
		found, err := secret(t.Context(), holder, registration, names.CredentialSecret("nameless", "random"))
		g.Expect(err).NotTo(HaveOccurred())
		_, err = protocol.ParseCredential(found.Data)
		g.Expect(err).NotTo(HaveOccurred())
	})
}

// expectRevoked waits until nothing of a registration is left, and its agent is a stranger.
func expectRevoked(t *testing.T, hub *client.Client, a agent) {
	t.Helper()
	ctx, rbac, ns, request := t.Context(), hub.Kube.RbacV1(), a.credential.DeploymentNamespace, a.request
	eventually(t, func(g Gomega) {
		gone := func(err error) { g.Expect(err).To(notFound()) }
		_, err := hub.Kube.CoreV1().ServiceAccounts(ns).Get(ctx, a.account().Name, metav1.GetOptions{})
		gone(err)
		_, err = secret(ctx, hub, registration, a.secret)
		gone(err)
		for namespace, name := range map[string]string{registration: grant.CredentialAccessName(request.Name), request.Namespace: request.Name} {
			_, err = rbac.Roles(namespace).Get(ctx, name, metav1.GetOptions{})
			gone(err)
			_, err = rbac.RoleBindings(namespace).Get(ctx, name, metav1.GetOptions{})
			gone(err)
		}
		_, err = rbac.RoleBindings(ns).Get(ctx, request.Name, metav1.GetOptions{})
		gone(err)
		g.Expect(a.shares(ctx, g, hub)).To(BeFalse(), "it still shares in reading Contents")
		err = a.client.List(ctx, client.BundleDeployments, ns, &fleet.BundleDeploymentList{})
		g.Expect(err).To(MatchError(isRefused, "refused"))
	})
}

func TestDeletedRequest_IsRevoked(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-revoked")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	stays, goes := register(t, holder, ws, "stays", "random"), register(t, holder, ws, "goes", "random")
	g.Expect(goes.shares(t.Context(), g, hub)).To(BeTrue())
	g.Expect(hub.Delete(t.Context(), client.ClusterRegistrations, ws, goes.request.Name)).To(Succeed())
	expectRevoked(t, hub, goes)
	g.Expect(stays.shares(t.Context(), g, hub)).To(BeTrue())
	_, err := secret(t.Context(), holder, registration, stays.secret)
	g.Expect(err).NotTo(HaveOccurred()) // until its first use, which is next
	g.Expect(stays.beat(t.Context(), stays.credential.ClusterName, time.Now())).To(Succeed())
	g.Expect(hub.Get(t.Context(), client.Clusters, ws, goes.credential.ClusterName, &fleet.Cluster{})).To(Succeed()) // it may register again
}

// TestSameRequestNameInTwoWorkspaces_AreIndependent registers an agent in each workspace. Deleting one request does
// not change the rights of the other.
func TestSameRequestNameInTwoWorkspaces_AreIndependent(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	var holders, agents = map[string]*client.Client{}, map[string]agent{}
	for _, name := range []string{"ws-namesake-a", "ws-namesake-b"} {
		ws := workspace(t, hub, name)
		newToken(t, hub, ws, "t1", 0)
		holders[name] = bearer(t, valuesOf(t, hub, ws, "t1"))
		request := newRequest(ws, "the same", "random of "+ws, "t1")
		request.GenerateName, request.Name = "", "request-twice"
		agents[name] = registerWith(t, holders[name], request)
	}
	var found []string
	roles, err := hub.Kube.RbacV1().Roles(registration).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, role := range roles.Items {
		if role.Annotations[fleet.AnnotationClusterRegistration] == "request-twice" {
			found = append(found, role.Annotations[fleet.AnnotationClusterRegistrationNamespace]+"/"+role.Name)
		}
	}
	a, b := agents["ws-namesake-a"].request.Namespace, agents["ws-namesake-b"].request.Namespace
	g.Expect(found).To(ConsistOf(a+"/request-twice-creds", b+"/"+grant.CredentialAccessName(names.Namesake(b, "request-twice"))))
	works := func(g Gomega, name string) {
		a := agents[name]
		g.Expect(a.beat(t.Context(), a.credential.ClusterName, time.Now())).To(Succeed())
		g.Expect(a.client.Fleet.Get().Resource("contents").Name("none").Do(t.Context()).Error()).To(notFound()) // and not forbidden
	}
	works(g, "ws-namesake-a")
	_, err = secret(t.Context(), holders["ws-namesake-b"], registration, agents["ws-namesake-b"].secret)
	g.Expect(err).NotTo(HaveOccurred())
	works(g, "ws-namesake-b")

	g.Expect(hub.Delete(t.Context(), client.ClusterRegistrations, a, "request-twice")).To(Succeed())
	eventually(t, func(g Gomega) {
		_, err := secret(t.Context(), hub, registration, agents["ws-namesake-a"].secret)
		g.Expect(err).To(notFound())
		works(g, "ws-namesake-b")
	})
}

// An agent may read its credential as often as it likes until it uses it. An agent that has lost it afterwards asks again.
func TestCredential_IsReadableUntilItsFirstUse(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-first-use")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	first := register(t, holder, ws, "reads twice", "random")
	_, err := secret(t.Context(), holder, registration, first.secret)
	g.Expect(err).NotTo(HaveOccurred())

	expectGone := func(a agent, beat time.Time) {
		g.Expect(a.beat(t.Context(), a.credential.ClusterName, beat)).To(Succeed())
		eventually(t, func(g Gomega) {
			_, err := secret(t.Context(), hub, registration, a.secret)
			g.Expect(err).To(notFound())
			_, err = secret(t.Context(), holder, registration, a.secret)
			g.Expect(err).To(forbidden())
			roles, err := hub.Kube.RbacV1().Roles(registration).List(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(roles.Items).NotTo(ContainElement(HaveField("Name", a.request.Name+"-creds")))
		})
		g.Expect(a.beat(t.Context(), a.credential.ClusterName, beat.Add(time.Second))).To(Succeed())
		found := &fleet.ClusterRegistration{}
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, a.request.Name, found)).To(Succeed())
		g.Expect(found.Status.Granted).To(BeTrue())
	}
	now := time.Now()
	expectGone(first, now)
	expectGone(register(t, holder, ws, "reads twice", "another random"), now.Add(time.Minute)) // no two heartbeats of one second
}

func TestAgentRights_AreRestored(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-rights")
	newToken(t, hub, ws, "t1", 0)
	a := register(t, bearer(t, valuesOf(t, hub, ws, "t1")), ws, "healed", "random")
	g.Expect(hub.Kube.RbacV1().RoleBindings(a.credential.DeploymentNamespace).Delete(t.Context(), a.request.Name, metav1.DeleteOptions{})).To(Succeed())
	g.Expect(hub.Kube.RbacV1().Roles(ws).Delete(t.Context(), a.request.Name, metav1.DeleteOptions{})).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(a.client.List(t.Context(), client.BundleDeployments, a.credential.DeploymentNamespace, &fleet.BundleDeploymentList{})).To(Succeed())
		g.Expect(a.beat(t.Context(), a.credential.ClusterName, time.Now())).To(Succeed())
	})
}

func TestContentReaderBinding_IsRestored(t *testing.T) {
	hub := hub(t)
	ws := workspace(t, hub, "ws-contents")
	newToken(t, hub, ws, "t1", 0)
	a := register(t, bearer(t, valuesOf(t, hub, ws, "t1")), ws, "reads", "random")
	bindings, name := hub.Kube.RbacV1().ClusterRoleBindings(), contentreaders.Binding(a.account())
	patch := func(document string) error {
		_, err := bindings.Patch(t.Context(), name, types.MergePatchType, []byte(document), metav1.PatchOptions{})
		return err
	}
	tests := map[string]func() error{
		"subjects are removed": func() error { return patch(`{"subjects":null}`) },
		"subjects are replaced": func() error {
			return patch(`{"subjects":[{"kind":"ServiceAccount","namespace":"default","name":"default"}]}`)
		},
		"binding is deleted":              func() error { return bindings.Delete(t.Context(), name, metav1.DeleteOptions{}) },
		"labels and subjects are removed": func() error { return patch(`{"metadata":{"labels":null},"subjects":null}`) },
	}
	for what, harm := range tests {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(harm()).To(Succeed())
			eventually(t, func(g Gomega) {
				binding, err := bindings.Get(t.Context(), name, metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(binding.Labels).To(HaveKeyWithValue(fleet.LabelManaged, "true"))
				g.Expect(contentreaders.Reads(binding, a.account())).To(BeTrue())
				g.Expect(binding.Subjects).NotTo(ContainElement(HaveField("Namespace", "default")))
				g.Expect(a.client.Fleet.Get().Resource("contents").Name("none").Do(t.Context()).Error()).To(notFound()) // and not forbidden
			})
		})
	}
}

func TestUnusedCredential_IsDeletedAfter40Minutes(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-expiry")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	a := register(t, holder, ws, "late", "random")
	touch := func(g Gomega) { // so that the controller looks, which else it does when the time is over
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, ahead.Load())
		_, err := hub.Kube.CoreV1().Secrets(registration).Patch(t.Context(), a.secret, types.MergePatchType, patch, metav1.PatchOptions{})
		g.Expect(err).To(Or(Succeed(), notFound()))
	}
	ahead.Store(int64(30 * time.Minute))
	defer ahead.Store(0)
	touch(g)
	_, err := secret(t.Context(), holder, registration, a.secret)
	g.Expect(err).NotTo(HaveOccurred(), "gone too early")

	ahead.Store(int64(41 * time.Minute))
	touch(g)
	eventually(t, func(g Gomega) {
		_, err := secret(t.Context(), hub, registration, a.secret)
		g.Expect(err).To(notFound())
		_, err = secret(t.Context(), holder, registration, a.secret)
		g.Expect(err).To(forbidden())
		_, err = hub.Kube.RbacV1().Roles(registration).Get(t.Context(), grant.CredentialAccessName(a.request.Name), metav1.GetOptions{})
		g.Expect(err).To(notFound())
	})
	g.Expect(a.beat(t.Context(), a.credential.ClusterName, time.Now().Add(time.Minute))).To(Succeed(), "the agent that fetched it in time goes on")
	// The request is looked at with every heartbeat: its credential does not come back.
	eventually(t, func(g Gomega) {
		found := &fleet.ClusterRegistration{}
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, a.request.Name, found)).To(Succeed())
		g.Expect(found.Status.Granted).To(BeTrue())
	})
	_, err = secret(t.Context(), hub, registration, a.secret)
	g.Expect(err).To(notFound())
}

func TestOtherSecretsInTheRegistrationNamespace_Stay(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "theirs", Labels: map[string]string{fleet.LabelCluster: "c1"}}}
	_, err := hub.Kube.CoreV1().Secrets(registration).Create(t.Context(), theirs, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	unlabelled := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "c-unlabelled"}, Type: protocol.SecretTypeCredential}
	_, err = hub.Kube.CoreV1().Secrets(registration).Create(t.Context(), unlabelled, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	ended := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "c-ended", Labels: map[string]string{fleet.LabelCluster: "c1"}}, Type: protocol.SecretTypeCredential}
	ahead.Store(int64(time.Hour))
	defer ahead.Store(0)
	_, err = hub.Kube.CoreV1().Secrets(registration).Create(t.Context(), ended, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	eventually(t, func(g Gomega) {
		_, err := secret(t.Context(), hub, registration, "c-ended")
		g.Expect(err).To(notFound())
	})
	for _, name := range []string{"theirs", "c-unlabelled"} {
		_, err := secret(t.Context(), hub, registration, name)
		g.Expect(err).NotTo(HaveOccurred(), name)
	}
}

func TestWidenedRoleOfARequest_IsRestored(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-role")
	newToken(t, hub, ws, "t1", 0)
	a := register(t, bearer(t, valuesOf(t, hub, ws, "t1")), ws, "role", "random")
	role, err := hub.Kube.RbacV1().Roles(ws).Get(t.Context(), a.request.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	_, err = hub.Kube.RbacV1().Roles(ws).Update(t.Context(), role, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	eventually(t, func(g Gomega) {
		role, err := hub.Kube.RbacV1().Roles(ws).Get(t.Context(), a.request.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(role.Rules).To(Equal([]rbacv1.PolicyRule{{
			APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"clusters/status"}, ResourceNames: []string{a.credential.ClusterName}, Verbs: []string{"patch"},
		}}))
	})
}
