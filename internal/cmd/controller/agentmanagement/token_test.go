package agentmanagement_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// newToken creates a ClusterRegistrationToken; a TTL of 0 leaves it out.
func newToken(t *testing.T, hub *client.Client, workspace, name string, ttl time.Duration) *fleet.ClusterRegistrationToken {
	t.Helper()
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name}}
	if ttl > 0 {
		token.Spec.TTL = &metav1.Duration{Duration: ttl}
	}
	if err := hub.Create(t.Context(), client.Tokens, token); err != nil {
		t.Fatal(err)
	}
	return token
}

// valuesOf waits for the values of a token.
func valuesOf(t *testing.T, hub *client.Client, workspace, name string) (values protocol.Values) {
	t.Helper()
	eventually(t, func(g Gomega) {
		found, err := secret(t.Context(), hub, workspace, name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Type).To(Equal(corev1.SecretType("fleet.cattle.io/cluster-registration-values")))
		values, err = protocol.ParseValues(found.Data["values"])
		g.Expect(err).NotTo(HaveOccurred())
	})
	return values
}

// bearer is a client with the token of a ClusterRegistrationToken.
func bearer(t *testing.T, values protocol.Values) *client.Client {
	t.Helper()
	return reach(t, as(control.Plane(t).Hub, values.Token))
}

func newRequest(workspace, clientID, random, token string) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, GenerateName: "request-", Labels: map[string]string{fleet.LabelRegistrationToken: token}},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: random, ClusterLabels: map[string]string{"env": "test"}},
	}
}

func TestToken_MayOnlyCreateRequests(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws, other := workspace(t, hub, "ws-token"), workspace(t, hub, "ws-token-other")
	token := newToken(t, hub, ws, "t1", time.Hour)
	values := valuesOf(t, hub, ws, "t1")
	want := protocol.Values{
		ClusterNamespace: ws, APIServerURL: control.Plane(t).Hub.URL, APIServerCA: string(control.Plane(t).Hub.CA), Token: values.Token,
		SystemRegistrationNamespace: registration, TokenName: "t1",
	}
	g.Expect(values).To(Equal(want))
	eventually(t, func(g Gomega) {
		found := &fleet.ClusterRegistrationToken{}
		g.Expect(hub.Get(t.Context(), client.Tokens, ws, "t1", found)).To(Succeed())
		g.Expect(found.Status.SecretName).To(Equal("t1"))
		g.Expect(found.Status.Expires.Time).To(BeTemporally("==", token.CreationTimestamp.Add(time.Hour)))
		ready := conditions.Get(found.Status.Conditions, "Ready")
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.Status).To(Equal(corev1.ConditionTrue))
	})
	holder := bearer(t, values)
	request := newRequest(ws, "client-of-t1", "random", "t1")
	eventually(t, func(g Gomega) { // rights take a moment to be in force
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, request)).To(Succeed())
	})
	for what, err := range everythingElse(t.Context(), holder, request, ws, other) {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v; want it forbidden", what, err)
		}
	}
	expectRules(t, holder, ws, authorizationv1.ResourceRule{Verbs: []string{"create"}, APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"clusterregistrations"}})
	expectRules(t, holder, other)
	answer := names.CredentialSecret("client-of-t1", "random")
	eventually(t, func(g Gomega) {
		_, err := secret(t.Context(), holder, registration, answer)
		g.Expect(err).NotTo(HaveOccurred())
	})
	expectRules(t, holder, registration, authorizationv1.ResourceRule{
		Verbs: []string{"get", "watch"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{answer},
	})
}

// everythingElse is tried by somebody who may only ask.
func everythingElse(ctx context.Context, c *client.Client, request *fleet.ClusterRegistration, ws, other string) map[string]error {
	core := c.Kube.CoreV1()
	tried := map[string]error{
		"asking elsewhere":     c.Create(ctx, client.ClusterRegistrations, newRequest(other, "c", "r", "t1")),
		"reading its request":  c.Get(ctx, client.ClusterRegistrations, ws, request.Name, &fleet.ClusterRegistration{}),
		"listing requests":     c.List(ctx, client.ClusterRegistrations, ws, &fleet.ClusterRegistrationList{}),
		"changing its request": c.Patch(ctx, client.ClusterRegistrations, ws, request.Name, []byte(`{"spec":{"clientID":"x"}}`)),
		"deleting its request": c.Delete(ctx, client.ClusterRegistrations, ws, request.Name),
		"granting itself":      c.Fleet.Put().Namespace(ws).Resource(client.ClusterRegistrations).Name(request.Name).SubResource("status").Body(request).Do(ctx).Error(),
		"creating a Cluster":   c.Create(ctx, client.Clusters, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "x"}}),
		"listing Clusters":     c.List(ctx, client.Clusters, ws, &fleet.ClusterList{}),
		"reading its token":    c.Get(ctx, client.Tokens, ws, "t1", &fleet.ClusterRegistrationToken{}),
		"creating a token":     c.Create(ctx, client.Tokens, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "x"}}),
		"listing Bundles":      c.List(ctx, client.Bundles, "", &fleet.BundleList{}),
		"listing deployments":  c.List(ctx, client.BundleDeployments, "", &fleet.BundleDeploymentList{}),
		"creating a namespace": c.EnsureNamespace(ctx, "x"),
	}
	_, tried["reading its values"] = core.Secrets(ws).Get(ctx, "t1", metav1.GetOptions{})
	_, tried["listing Secrets"] = core.Secrets(ws).List(ctx, metav1.ListOptions{})
	_, tried["listing credentials"] = core.Secrets(registration).List(ctx, metav1.ListOptions{})
	_, tried["reading somebody's credential"] = core.Secrets(registration).Get(ctx, "c-1", metav1.GetOptions{})
	_, tried["watching credentials"] = core.Secrets(registration).Watch(ctx, metav1.ListOptions{})
	_, tried["listing namespaces"] = core.Namespaces().List(ctx, metav1.ListOptions{})
	_, tried["listing pods"] = core.Pods(ws).List(ctx, metav1.ListOptions{})
	return tried
}

// expectRules compares what an account may do in a namespace beside what everybody may.
func expectRules(t *testing.T, c *client.Client, namespace string, want ...authorizationv1.ResourceRule) {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err := c.Kube.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []authorizationv1.ResourceRule
	for _, rule := range review.Status.ResourceRules {
		group := rule.APIGroups[0]
		trustBundles := slices.Equal(rule.Resources, []string{"clustertrustbundles"}) && slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) // since Kubernetes 1.37
		if group != "authorization.k8s.io" && group != "authentication.k8s.io" && !trustBundles {
			got = append(got, rule)
		}
	}
	NewWithT(t).Expect(got).To(ConsistOf(toAny(want)...))
}

func toAny[T any](list []T) (all []any) {
	for _, item := range list {
		all = append(all, item)
	}
	return all
}

func TestToken_ExpiresAfterItsTTL(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-token-ttl")
	token := newToken(t, hub, ws, "t1", time.Hour) // a short one may have ended before its values were read
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	ttl := time.Since(token.CreationTimestamp.Time).Truncate(time.Second) + 2*time.Second
	g.Expect(hub.Patch(t.Context(), client.Tokens, ws, "t1", fmt.Appendf(nil, `{"spec":{"ttl":%q}}`, ttl))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.Tokens, ws, "t1", &fleet.ClusterRegistrationToken{})).To(notFound())
	})
	g.Expect(time.Now()).To(BeTemporally(">=", token.CreationTimestamp.Add(ttl)))
	expectEnded(t, hub, ws, token, holder)
}

// expectEnded waits until nothing of a token is left, and its bearer is a stranger.
func expectEnded(t *testing.T, hub *client.Client, ws string, token *fleet.ClusterRegistrationToken, holder *client.Client) {
	t.Helper()
	account := names.ImportAccount(token.Name, string(token.UID))
	eventually(t, func(g Gomega) {
		_, err := hub.Kube.CoreV1().ServiceAccounts(ws).Get(t.Context(), account, metav1.GetOptions{})
		g.Expect(err).To(notFound())
		_, err = secret(t.Context(), hub, ws, token.Name)
		g.Expect(err).To(notFound())
		roles, err := hub.Kube.RbacV1().Roles(ws).List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(roles.Items).To(BeEmpty())
		bindings, err := hub.Kube.RbacV1().RoleBindings(ws).List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bindings.Items).To(BeEmpty())
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, newRequest(ws, "late", "late", "t1"))).To(MatchError(isRefused, "refused"))
	})
}

func TestDeletedToken_DeletesItsObjects(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-token-deleted")
	token := newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	g.Expect(hub.Delete(t.Context(), client.Tokens, ws, "t1")).To(Succeed())
	expectEnded(t, hub, ws, token, holder)
}

func TestTokenObjects_AreRestored(t *testing.T) {
	hub := hub(t)
	ws := workspace(t, hub, "ws-token-healed")
	token := newToken(t, hub, ws, "t1", 0)
	account := names.ImportAccount("t1", string(token.UID))
	before := valuesOf(t, hub, ws, "t1")
	remove := map[string]func(context.Context, string, metav1.DeleteOptions) error{
		names.SafeConcat(account, "role"):       hub.Kube.RbacV1().Roles(ws).Delete,
		names.SafeConcat(account, "to", "role"): hub.Kube.RbacV1().RoleBindings(ws).Delete,
		"t1":                                    hub.Kube.CoreV1().Secrets(ws).Delete,
		account:                                 hub.Kube.CoreV1().ServiceAccounts(ws).Delete,
	}
	for _, name := range []string{names.SafeConcat(account, "role"), names.SafeConcat(account, "to", "role"), "t1", account} {
		if err := remove[name](t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(g Gomega) { // the token of the values works again, whether it is another or not
			found, err := secret(t.Context(), hub, ws, "t1")
			g.Expect(err).NotTo(HaveOccurred())
			values, err := protocol.ParseValues(found.Data["values"])
			g.Expect(err).NotTo(HaveOccurred())
			request := newRequest(ws, "healed", name, "t1")
			g.Expect(bearer(t, values).Create(t.Context(), client.ClusterRegistrations, request)).To(Succeed())
		})
	}
	if after := valuesOf(t, hub, ws, "t1"); after.Token == before.Token {
		t.Error("the token of an account that is gone is still in the values")
	}
}

func TestSecretOfAnotherOwner_KeepsTheTokenWaiting(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-token-blocked")
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "t1"}, StringData: map[string]string{"mine": "1"}}
	_, err := hub.Kube.CoreV1().Secrets(ws).Create(t.Context(), theirs, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	newToken(t, hub, ws, "t1", 0)
	eventually(t, func(g Gomega) {
		found := &fleet.ClusterRegistrationToken{}
		g.Expect(hub.Get(t.Context(), client.Tokens, ws, "t1", found)).To(Succeed())
		ready := conditions.Get(found.Status.Conditions, "Ready")
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.Reason).To(Equal(conditions.ReasonSecretNameTaken))
		g.Expect(found.Status.SecretName).To(BeEmpty())
	})
	left, err := secret(t.Context(), hub, ws, "t1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left.Data).To(Equal(map[string][]byte{"mine": []byte("1")}))
}

// A token that names another key is to the API server what a token is whose signing key it no longer has.
func TestATokenThatTheServerNoLongerAccepts_IsReplaced(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-token-rejected")
	newToken(t, hub, ws, "t1", 0)
	dead := valuesOf(t, hub, ws, "t1")
	parts := strings.Split(dead.Token, ".")
	parts[0] = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"the key before"}`))
	dead.Token = strings.Join(parts, ".")
	found, err := secret(t.Context(), hub, ws, "t1")
	g.Expect(err).NotTo(HaveOccurred())
	found.Data[protocol.ValuesKey], err = dead.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = hub.Kube.CoreV1().Secrets(ws).Update(t.Context(), found, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	account, err := hub.Kube.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), "fleet-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // as after a restart
		defer close(ended)
		_ = agentmanagement.Run(ctx, controllers(as(control.Plane(t).Hub, account.Status.Token), slog.New(slog.DiscardHandler), func() {})) // it ends with the test
	}()
	defer func() {
		cancel()
		<-ended
	}()
	eventually(t, func(g Gomega) {
		g.Expect(valuesOf(t, hub, ws, "t1").Token == dead.Token).To(BeFalse())
	})
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	eventually(t, func(g Gomega) {
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, newRequest(ws, "client-of-rejected", "random", "t1"))).To(Succeed())
	})
}
