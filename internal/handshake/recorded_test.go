package handshake_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
)

// Every recorded Secret of the handshake can be read, and is written as it was.
func TestRecordedSecrets(t *testing.T) {
	hub := recordedOn(t, "hub")
	seen := map[corev1.SecretType]int{}
	for _, key := range hub.all("Secret") {
		secret := hub.secret(t, key)
		seen[secret.Type]++
		t.Run(key, func(t *testing.T) {
			switch secret.Type {
			case handshake.SecretTypeValues:
				values, err := handshake.ParseValues(secret.Data[handshake.ValuesKey])
				if err != nil {
					t.Fatal(err)
				}
				document, err := values.Encode()
				if err != nil {
					t.Fatal(err)
				}
				expectEqual(t, "values", string(document), string(secret.Data[handshake.ValuesKey]))
			case handshake.SecretTypeCredential:
				credential, err := handshake.ParseCredential(secret.Data)
				if err != nil {
					t.Fatal(err)
				}
				expectEqual(t, "credential", credential.Encode(), secret.Data)
			}
		})
	}
	expectEqual(t, "recorded values and credentials", []int{seen[handshake.SecretTypeValues], seen[handshake.SecretTypeCredential]}, []int{3, 3})
}

func TestRecordedIdentities(t *testing.T) {
	want := map[string]string{"hub": "local", "east": "east", "west": "cluster-3f8a81b9896a"}
	for _, where := range slices.Sorted(maps.Keys(want)) {
		t.Run(where, func(t *testing.T) {
			data := recordedOn(t, where).secretData(t, "Secret cattle-fleet-system/"+names.Agent)
			identity, err := handshake.ParseIdentity(data)
			if err != nil {
				t.Fatal(err)
			}
			expectEqual(t, "cluster", identity.ClusterName, want[where])
			expectEqual(t, "namespace on the hub", identity.DeploymentNamespace, names.ClusterNamespace(identity.ClusterNamespace, identity.ClusterName))
			expectEqual(t, "identity", identity.Encode(), data)
		})
	}
}
