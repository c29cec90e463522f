package transcript

import (
	"errors"
	"testing"
)

const created = "fleet join --context west <<'JOIN'\nfleet-join-v1:0123456789SECRET\nJOIN\n# hub CA sha256:00\n"

func TestJoinText_IsWhatTheCommandReads(t *testing.T) {
	text, err := JoinText(created)
	if err != nil || text != "fleet-join-v1:0123456789SECRET" {
		t.Errorf("%q, %v", text, err)
	}
	for _, output := range []string{"", "fleet-join-v1:0123456789SECRET\n", "fleet join <<'JOIN'\nfleet-join-v1:0123456789"} {
		if text, err := JoinText(output); !errors.Is(err, ErrNoText) || text != "" {
			t.Errorf("%q: %q, %v", output, text, err)
		}
	}
}

func TestRedact_CutsSecretsOnly(t *testing.T) {
	for text, want := range map[string]string{
		created:                        "fleet join --context west <<'JOIN'\nfleet-join-v1:0123456789…\nJOIN\n# hub CA sha256:00\n",
		"token: eyJhbGciOi.eyJ-_.s-_":  "token: eyJhbGciOi…",
		"  token: ZXlKaGJHY2lPaUw+/==": "  token: ZXlKaGJHY2…",
		"a fleet-join-v1: text":        "a fleet-join-v1: text",
		"keyJ and eyJ":                 "keyJ and eyJ",
	} {
		if got := Redact(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
