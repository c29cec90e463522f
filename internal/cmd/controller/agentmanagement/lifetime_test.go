package agentmanagement_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// renew requests a token of an account as this agent.
func (a agent) renew(ctx context.Context, account string, lifetime time.Duration) (string, error) {
	seconds := int64(lifetime / time.Second)
	answer, err := a.client.Kube.CoreV1().ServiceAccounts(a.credential.DeploymentNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// TestExpiringCredential_IsRenewedByItsAgent sets a lifetime while the controllers run. An agent that announces renewal gets a credential
// with it, renews it with the rights that it has, and can do nothing else with these rights. When the lifetime is set to 0, it
// renews it for the last time.
func TestExpiringCredential_IsRenewedByItsAgent(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	release := chart(control.Plane(t).Hub, map[string]any{})
	release.Values["agentCredential"] = map[string]any{"lifetime": "24h"}
	g.Expect(release.Install(t.Context())).To(Succeed())
	t.Cleanup(func() {
		if err := chart(control.Plane(t).Hub, map[string]any{}).Install(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	ws := workspace(t, hub, "ws-lifetime")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	var a agent
	var own protocol.Renewal
	clients := 0
	eventually(t, func(g Gomega) { // the controllers take the configuration over after a moment
		clients++
		request := newRequest(ws, fmt.Sprintf("expiring-%d", clients), "random", "t1")
		request.Annotations = map[string]string{annotation.AgentRenews: "true"}
		a = registerWith(t, holder, request)
		var expires bool
		own, expires = protocol.RenewalOf(a.credential.Token)
		g.Expect(expires).To(BeTrue())
	})
	g.Expect(own).To(Equal(protocol.Renewal{Namespace: a.credential.DeploymentNamespace, Account: a.account().Name, Lifetime: 24 * time.Hour}))

	var renewed string
	eventually(t, func(g Gomega) {
		var err error
		renewed, err = a.renew(t.Context(), own.Account, own.Lifetime)
		g.Expect(err).NotTo(HaveOccurred())
	})
	next := a
	next.credential.Token = renewed
	next.client = reach(t, as(control.Plane(t).Hub, renewed))
	g.Expect(next.beat(t.Context(), names.Cluster(a.request.Spec.ClientID), time.Now())).To(Succeed())
	for _, account := range []string{"default", own.Account + "0"} {
		_, err := a.renew(t.Context(), account, own.Lifetime)
		g.Expect(err).To(forbidden(), account)
	}
	eventually(t, func(g Gomega) { // the server takes the policy over after a moment
		_, err := a.renew(t.Context(), own.Account, own.Lifetime+time.Second)
		g.Expect(err).To(HaveOccurred())
	})

	lasting := register(t, holder, ws, "lasting", "random")
	_, expires := protocol.RenewalOf(lasting.credential.Token)
	g.Expect(expires).To(BeFalse(), "an agent that does not announce renewal")

	release.Values["agentCredential"] = map[string]any{"lifetime": "0"}
	g.Expect(release.Install(t.Context())).To(Succeed())
	eventually(t, func(g Gomega) { // the policy is gone after a moment
		last, err := next.renew(t.Context(), own.Account, protocol.TokenLifetime)
		g.Expect(err).NotTo(HaveOccurred())
		_, expires := protocol.RenewalOf(last)
		g.Expect(expires).To(BeFalse())
	})
}
