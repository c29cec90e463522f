package protocol_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

func TestRecordedSecrets_AreEncodedUnchanged(t *testing.T) {
	hub := rulestest.RecordedOn(t, "hub")
	seen := map[corev1.SecretType]int{}
	for _, key := range hub.All("Secret") {
		secret := hub.Secret(t, key)
		seen[secret.Type]++
		t.Run(key, func(t *testing.T) {
			switch secret.Type {
			case protocol.SecretTypeValues:
				values, err := protocol.ParseValues(secret.Data[protocol.ValuesKey])
				if err != nil {
					t.Fatal(err)
				}
				document, err := values.Encode()
				if err != nil {
					t.Fatal(err)
				}
				rulestest.ExpectEqual(t, "values", string(document), string(secret.Data[protocol.ValuesKey]))
			case protocol.SecretTypeCredential:
				credential, err := protocol.ParseCredential(secret.Data)
				if err != nil {
					t.Fatal(err)
				}
				rulestest.ExpectEqual(t, "credential", credential.Encode(), secret.Data)
			}
		})
	}
	rulestest.ExpectEqual(t, "recorded values and credentials", []int{seen[protocol.SecretTypeValues], seen[protocol.SecretTypeCredential]}, []int{3, 3})
}

func TestRecordedIdentities_AreEncodedUnchanged(t *testing.T) {
	want := map[string]string{"hub": "local", "east": "east", "west": "cluster-3f8a81b9896a"}
	for _, where := range slices.Sorted(maps.Keys(want)) {
		t.Run(where, func(t *testing.T) {
			data := rulestest.RecordedOn(t, where).SecretData(t, "Secret cattle-fleet-system/"+names.Agent)
			identity, err := protocol.ParseIdentity(data)
			if err != nil {
				t.Fatal(err)
			}
			rulestest.ExpectEqual(t, "cluster", identity.ClusterName, want[where])
			rulestest.ExpectEqual(t, "namespace on the hub", identity.DeploymentNamespace, names.ClusterNamespace(identity.ClusterNamespace, identity.ClusterName))
			rulestest.ExpectEqual(t, "identity", identity.Encode(), data)
		})
	}
}
