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

func TestAnswer_IsReadAsItWasWritten(t *testing.T) {
	document, err := protocol.EncodeData(someRecovery().Encode())
	if err != nil {
		t.Fatal(err)
	}
	data, err := protocol.ParseAnswer(document)
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "data", data, someRecovery().Encode())
	for _, document := range []string{"", "null", "[]", `{"a":1}`, `{"a":"?"}`} {
		if _, err := protocol.ParseAnswer([]byte(document)); !errors.Is(err, protocol.ErrAnswer) {
			t.Errorf("%q: error %v", document, err)
		}
	}
}
