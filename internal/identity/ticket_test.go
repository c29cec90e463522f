package identity

import (
	"errors"
	"strings"
	"testing"
	"time"

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
	hub := newKey(t)
	text := ticketOf(t, hub, someTicket())
	tests := forged(t, hub, ticketType, text, "east", "west")
	tests["ticket of another hub"] = ticketOf(t, newKey(t), someTicket())
	expectForged(t, tests, ErrTicket, func(text string) error {
		_, err := VerifyTicket(hub.Public(), text)
		return err
	})
	if _, err := VerifyTicket("", text); !errors.Is(err, ErrTicket) {
		t.Errorf("no key of the hub: error %v", err)
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
	key := newKey(t)
	one, other := Thumbprint(key.Public()), Thumbprint(newKey(t).Public())
	if one != Thumbprint(key.Public()) || one == other || len(one) != 43 {
		t.Errorf("thumbprints %q and %q", one, other)
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
