package transcript

import (
	"errors"
	"strings"
	"testing"
)

const created = "fleet join --context west <<'JOIN'\nfleet-join-v1:0123456789SECRET\nJOIN\nhub CA sha256:00\n"

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

func TestRedact_CutsJoinTextsOnly(t *testing.T) {
	got := Redact(created)
	if want := strings.Replace(created, "SECRET", "…", 1); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
