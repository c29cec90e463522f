package handshake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The set of a recorded token is what the rule returns for it.
func TestRecordedTokens(t *testing.T) {
	hub := recordedOn(t, "hub")
	keys := hub.all("ClusterRegistrationToken")
	expectEqual(t, "recorded tokens", len(keys), 3)
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			token := must[fleet.ClusterRegistrationToken](t, hub, key)
			token.CreationTimestamp = metav1.Time{Time: token.Status.Expires.Add(-token.Spec.TTL.Duration)} // recordings have none
			account := must[corev1.ServiceAccount](t, hub, "ServiceAccount "+token.Namespace+"/"+names.ImportAccount(token.Name, string(token.UID)))
			in := handshake.TokenInput{
				Now: token.CreationTimestamp.Time, Token: token, Account: account, RightsExist: true,
				APIServerURL: hub.config(t).APIServerURL, APIServerCA: []byte(redactedPEM), Namespaces: hubNamespaces(),
			}
			in.Secret = valuesSecret(boundJWT(string(account.UID), in.Now.Add(token.Spec.TTL.Duration)))

			out := pure(t, handshake.Token, in)
			expectEqual(t, "set", asRecorded(t, out.Children), hub.set(t, handshake.TokenSetID, ownerOf("ClusterRegistrationToken", token)))
			expectEqual(t, "status", out.Status, token.Status)
		})
	}
}
