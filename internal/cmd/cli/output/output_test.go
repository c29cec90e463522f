package output_test

import (
	"bytes"
	"encoding/json"
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

func TestObjects_AreOneDocumentInJSON(t *testing.T) {
	object := func(name string) any {
		return map[string]any{"kind": "Secret", "metadata": map[string]any{"name": name, "creationTimestamp": nil}, "status": "x"}
	}
	for name, test := range map[string]struct {
		format  output.Format
		objects []any
		want    string
	}{
		"one object in JSON":       {output.JSON, []any{object("a")}, `{"kind":"Secret","metadata":{"name":"a"}}`},
		"two objects in JSON":      {output.JSON, []any{object("a"), object("b")}, `{"apiVersion":"v1","items":[{"kind":"Secret","metadata":{"name":"a"}},{"kind":"Secret","metadata":{"name":"b"}}],"kind":"List"}`},
		"two objects in a table":   {output.Table, []any{object("a"), object("b")}, "kind: Secret\nmetadata:\n  name: a\n---\nkind: Secret\nmetadata:\n  name: b\n"},
		"no objects, none in JSON": {output.JSON, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, compact bytes.Buffer
			if err := output.Objects(&out, test.format, test.objects...); err != nil {
				t.Fatal(err)
			}
			if json.Compact(&compact, out.Bytes()) != nil { // YAML
				compact = out
			}
			if got := compact.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
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
