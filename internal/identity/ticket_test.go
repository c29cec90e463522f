package identity

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

func someTicket() Ticket {
	return Ticket{
		Workspace: "fleet-default", Cluster: "east", Labels: map[string]string{"env": "prod"}, ClientID: "client", Key: "thumbprint",
		Time: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC),
	}
}

func ticketOf(t testing.TB, hub Key, ticket Ticket) string {
	t.Helper()
	text, err := hub.SignTicket(ticket)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTicket_IsReadAsItWasSigned(t *testing.T) {
	hub := newKey(t)
	got, err := VerifyTicket(hub.Public(), ticketOf(t, hub, someTicket()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someTicket(), got); diff != "" {
		t.Error(diff)
	}
}

func TestForgedTicket_IsRejected(t *testing.T) {
	hub, other := newKey(t), newKey(t)
	text := ticketOf(t, hub, someTicket())
	parts := strings.Split(text, ".")
	document, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	changed := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(document), "east", "west", 1)))
	for name, test := range map[string]struct{ hub, text string }{
		"ticket of another hub":      {hub.Public(), ticketOf(t, other, someTicket())},
		"changed cluster":            {hub.Public(), parts[0] + "." + changed + "." + parts[2]},
		"alg none":                   {hub.Public(), unsigned(fmt.Sprintf(`{"alg":"none","typ":%q}`, ticketType), document, "")},
		"alg HS256, public key":      {hub.Public(), signed(t, jose.HS256, []byte(hub.Public()), ticketType, document)},
		"type of a proof":            {hub.Public(), signed(t, jose.ES256, hub.private, proofType, document)},
		"signed text is not JSON":    {hub.Public(), signed(t, jose.ES256, hub.private, ticketType, []byte("x"))},
		"signed text is empty":       {hub.Public(), signed(t, jose.ES256, hub.private, ticketType, []byte("{}"))},
		"a megabyte":                 {hub.Public(), text + strings.Repeat("A", 1<<20)},
		"nothing":                    {hub.Public(), ""},
		"no key of the hub":          {"", text},
		"no signature":               {hub.Public(), parts[0] + "." + parts[1] + "."},
		"content is not in the text": {hub.Public(), parts[0] + ".." + parts[2]},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyTicket(test.hub, test.text)
			if !errors.Is(err, ErrTicket) {
				t.Fatalf("error %v, want %v", err, ErrTicket)
			}
			if len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestIncompleteTicket_IsNotSigned(t *testing.T) {
	for name, change := range map[string]func(*Ticket){
		"no workspace":     func(t *Ticket) { t.Workspace = "" },
		"no cluster":       func(t *Ticket) { t.Cluster = "" },
		"no client ID":     func(t *Ticket) { t.ClientID = "" },
		"no key":           func(t *Ticket) { t.Key = "" },
		"no time":          func(t *Ticket) { t.Time = time.Time{} },
		"too many labels":  func(t *Ticket) { t.Labels = map[string]string{"a": strings.Repeat("x", maxTicket)} },
		"client ID of 1MB": func(t *Ticket) { t.ClientID = strings.Repeat("x", 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			ticket := someTicket()
			change(&ticket)
			if _, err := newKey(t).SignTicket(ticket); !errors.Is(err, ErrTicket) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := (Key{}).SignTicket(someTicket()); !errors.Is(err, ErrKey) {
		t.Errorf("zero key: error %v", err)
	}
}

func TestThumbprint_IdentifiesTheKey(t *testing.T) {
	one, other := newKey(t), newKey(t)
	if one.Thumbprint() != Thumbprint(one.Public()) || one.Thumbprint() == other.Thumbprint() || len(one.Thumbprint()) != 43 {
		t.Errorf("thumbprints %q and %q", one.Thumbprint(), other.Thumbprint())
	}
	if (Key{}).Thumbprint() != "" {
		t.Error("the zero key has a thumbprint")
	}
}

func TestWorkspaceKey_DependsOnHubAndWorkspace(t *testing.T) {
	hub := newKey(t)
	seen := map[string]bool{}
	for _, key := range [][]byte{hub.WorkspaceKey("a"), hub.WorkspaceKey("b"), newKey(t).WorkspaceKey("a")} {
		if len(key) != sharedKeySize || seen[string(key)] {
			t.Errorf("a key of %d bytes, or twice the same", len(key))
		}
		seen[string(key)] = true
	}
	if !seen[string(hub.WorkspaceKey("a"))] {
		t.Error("the key of a workspace changes")
	}
	if (Key{}).WorkspaceKey("a") != nil {
		t.Error("the zero key has workspace keys")
	}
}

// FuzzVerifyTicket checks that only tickets of the hub are accepted, and that these are complete.
func FuzzVerifyTicket(f *testing.F) {
	hub := newKey(f)
	text := ticketOf(f, hub, someTicket())
	f.Add(text)
	f.Add(ticketOf(f, newKey(f), someTicket()))
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		ticket, err := VerifyTicket(hub.Public(), text)
		if err == nil && cmp.Diff(someTicket(), ticket) != "" {
			t.Fatalf("a ticket that was never signed: %+v", ticket)
		}
	})
}
