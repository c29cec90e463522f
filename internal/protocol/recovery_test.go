package protocol_test

import (
	"errors"
	"testing"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

func someRecovery() protocol.Recovery {
	return protocol.Recovery{Token: "jwt", Ticket: "ticket", HubKey: "key", WorkspaceKey: []byte{0, 1, 255}}
}

func TestRecovery_IsReadAsItWasWritten(t *testing.T) {
	got, err := protocol.ParseRecovery(someRecovery().Encode())
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "recovery", got, someRecovery())
	for key := range someRecovery().Encode() {
		data := someRecovery().Encode()
		delete(data, key)
		if _, err := protocol.ParseRecovery(data); !errors.Is(err, protocol.ErrIncomplete) {
			t.Errorf("without %s: error %v", key, err)
		}
	}
	data := someRecovery().Encode()
	data["workspaceKey"] = []byte("?")
	if _, err := protocol.ParseRecovery(data); !errors.Is(err, protocol.ErrIncomplete) {
		t.Errorf("damaged workspace key: error %v", err)
	}
}

func TestAnswer_ContainsCredentialAndRecovery(t *testing.T) {
	credential := protocol.Credential{Token: "jwt2", DeploymentNamespace: "cluster-a", ClusterNamespace: "ws", ClusterName: "a", SystemNamespace: "sys"}
	document, err := protocol.EncodeAnswer(credential, someRecovery())
	if err != nil {
		t.Fatal(err)
	}
	data, err := protocol.ParseAnswer(document)
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "keys", len(data), 9)
	gotCredential, err := protocol.ParseCredential(data)
	if err != nil {
		t.Fatal(err)
	}
	gotRecovery, err := protocol.ParseRecovery(data)
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "credential", gotCredential, credential)
	rulestest.ExpectEqual(t, "recovery", gotRecovery, someRecovery())
	for _, document := range []string{"", "null", "[]", `{"a":1}`, `{"a":"?"}`} {
		if _, err := protocol.ParseAnswer([]byte(document)); !errors.Is(err, protocol.ErrAnswer) {
			t.Errorf("%q: error %v", document, err)
		}
	}
}
