package token_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestRecordedTokens_GiveTheRecordedObjects(t *testing.T) {
	hub := rulestest.RecordedOn(t, "hub")
	keys := hub.All("ClusterRegistrationToken")
	rulestest.ExpectEqual(t, "recorded tokens", len(keys), 3)
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			token := rulestest.Must[fleet.ClusterRegistrationToken](t, hub, key)
			token.CreationTimestamp = metav1.Time{Time: token.Status.Expires.Add(-token.Spec.TTL.Duration)} // recordings have none
			account := rulestest.Must[corev1.ServiceAccount](t, hub, "ServiceAccount "+token.Namespace+"/"+names.ImportAccount(token.Name, string(token.UID)))
			in := tokenrule.Input{
				Now: token.CreationTimestamp.Time, Token: token, Account: account, RightsExist: true,
				APIServerURL: hub.Config(t).APIServerURL, APIServerCA: []byte(rulestest.RedactedPEM), Namespaces: rulestest.HubNamespaces(),
			}
			in.Secret = rulestest.ValuesSecret(rulestest.BoundJWT(string(account.UID), in.Now.Add(token.Spec.TTL.Duration)))

			out := rulestest.Pure(t, tokenrule.Decide, in)
			rulestest.ExpectEqual(t, "set", rulestest.AsRecorded(t, out.Children), hub.Set(t, tokenrule.SetID, rulestest.OwnerOf("ClusterRegistrationToken", token)))
			rulestest.ExpectEqual(t, "status", out.Status, token.Status)
		})
	}
}
