package drift

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func same(text string) string { return text }

func TestPatchText(t *testing.T) {
	t.Parallel()
	many := map[string]any{}
	for i := range 1000 {
		many[fmt.Sprintf("key-%03d", i)] = "value"
	}
	long := strings.Repeat("ä", textLimit)
	tests := map[string]struct {
		patch Patch
		clean func(string) string
		want  string
	}{
		"sorted and not escaped": {Patch{"b": "<a&b>", "a": nil}, same, `{"a":null,"b":"<a&b>"}`},
		"secrets are masked at any depth": {
			Patch{"a": "my secret", "b": []any{map[string]any{"c": "secret"}}, "secret": true},
			func(text string) string { return strings.ReplaceAll(text, "secret", "***") },
			`{"a":"my ***","b":[{"c":"***"}],"secret":true}`,
		},
		"a number that contains a secret is masked": {
			Patch{"port": float64(12345678), "replicas": float64(3)},
			func(text string) string { return strings.ReplaceAll(text, "12345678", "***") }, `{"port":"***","replicas":3}`,
		},
		"a long value is truncated": {
			Patch{"a": long, "b": "short"}, same, `{"a":"` + strings.Repeat("ä", valueLimit/2) + `…","b":"short"}`,
		},
		"a long list is replaced by its length": {
			Patch{"a": []any{long, "x"}, "b": []any{"y"}}, same, `{"a":"[2 items]","b":["y"]}`,
		},
		"too many fields: only their parents are named": {
			Patch{"spec": many, "data": "x"}, same, `{"…":"too many fields: data, spec"}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := test.patch.Text(test.clean)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !json.Valid([]byte(got)) || len(got) > textLimit {
				t.Errorf("%d bytes, valid: %v", len(got), json.Valid([]byte(got)))
			}
		})
	}
}
