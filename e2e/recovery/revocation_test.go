package recovery_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestRevocation_CopiedTokenIsRejectedAndTheAgentReturns(t *testing.T) {
	h := newHub(t)
	victim := h.join(t, 0, 1)
	h.awaitRecoverable(t, victim)
	copied := victim[0].token()
	if code := h.tryToken(t, copied); code != http.StatusOK {
		t.Fatalf("before the revocation the token is answered with %d", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	order := fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, annotation.RevokeCredential)
	if err := h.Hub.Patch(ctx, client.Clusters, framework.Workspace, h.clusters[victim[0]], []byte(order)); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func() int { return h.tryToken(t, copied) }).WithContext(ctx).WithTimeout(patience).
		Should(Equal(http.StatusUnauthorized))
	t.Logf("the copied token is rejected after %s", time.Since(began).Round(time.Millisecond))
	at, err := victim[0].awaitReturn(ctx, began, copied, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the agent has returned after %s", at.Sub(began).Round(time.Second))
	if name, err := h.clusterOf(ctx, victim[0]); err != nil || name != h.clusters[victim[0]] {
		t.Errorf("the agent returned to Cluster %q, want %q: %v", name, h.clusters[victim[0]], err)
	}
}

// tryToken returns the status code of the hub's answer to a token.
func (h *hub) tryToken(t *testing.T, token string) int {
	t.Helper()
	config := rest.AnonymousClientConfig(h.plane.Hub.Config())
	config.BearerToken = token
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := plain.Get(config.Host + "/api")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// An agent of the last release keeps only its key, and does not know the other values of its recovery Secret.
func TestRollback_AgentKeepsItsIdentity(t *testing.T) {
	h := newHub(t)
	rolled := h.join(t, 0, 1)
	h.awaitRecoverable(t, rolled)
	a, token, requests := rolled[0], rolled[0].token(), h.registrations.Load()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	restart := func(what string) {
		t.Helper()
		a.stop()
		began := time.Now()
		a.start()
		if _, err := a.awaitReturn(ctx, began, token, true); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if a.token() != token || h.registrations.Load() != requests {
			t.Errorf("%s: the agent has another identity, after %d registrations", what, h.registrations.Load()-requests)
		}
	}
	a.stop()
	secrets := h.west.CoreV1().Secrets(metav1.NamespaceSystem)
	kept, err := secrets.Get(ctx, names.RecoverySecret(a.name), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept.Data = map[string][]byte{protocol.RecoveryKeyKey: kept.Data[protocol.RecoveryKeyKey]}
	if _, err := secrets.Update(ctx, kept, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	restart("back")
	restart("forward")
	h.awaitRecoverable(t, rolled)
	restart("with what the hub has given again")
}
