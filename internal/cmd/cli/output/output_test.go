package output_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

func TestLongCell_IsShortened(t *testing.T) {
	var out bytes.Buffer
	if err := output.Rows(&out, []string{"NAME", "MESSAGE"}, [][]string{{"a", strings.Repeat("é", 1<<20)}, {"b", "short"}}); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(out.String(), "\n")
	if len([]rune(rows[1])) > 2100 || !strings.HasSuffix(strings.TrimSpace(rows[1]), "…") || strings.Fields(rows[2])[1] != "short" {
		t.Errorf("%d characters, then %q", len([]rune(rows[1])), rows[2])
	}
}

func TestShorten_CountsCharacters(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"empty":          {"", ""},
		"as long":        {"äöü", "äöü"},
		"longer":         {"äöüx", "äö…"},
		"invalid at end": {"ab\xff\xff", "ab…"},
	} {
		if got := output.Shorten(test.text, 3); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
