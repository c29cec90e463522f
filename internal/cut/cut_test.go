package cut

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	tests := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short: it stays": {"not ready", 9, "not ready"},
		"long: it is cut": {"not ready", 8, "not r…"},
		"characters of several bytes: are not split":             {"ääää", 7, "ää…"},
		"line breaks and tabs stay":                              {"a\n\tb\r", 20, "a\n\tb\r"},
		"other control characters: are replaced":                 {"a\x00\x1b[31mb\x7f", 40, "a��[31mb�"},
		"invalid UTF-8: is replaced":                             {"a\xff\xfeb", 20, "a��b"},
		"characters that JSON escapes: count with their escapes": {strings.Repeat("<", 4), 18, "<<…"},
		"nothing": {"", 3, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Text(test.text, test.limit); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"},
	} {
		if got := Names(names, 2); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("plain", 10)
	f.Add(strings.Repeat("界<\"\x01\xff", 100), 64)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < len(ellipsis) || limit > 1<<20 {
			return
		}
		got := Text(text, limit)
		if !utf8.ValidString(got) {
			t.Errorf("%q is no UTF-8", got)
		}
		encoded, err := json.Marshal(got)
		if err != nil || len(encoded)-2 > limit {
			t.Errorf("%q takes %d bytes as JSON, more than %d: %v", got, len(encoded)-2, limit, err)
		}
		if Length(got) < len(encoded)-2 {
			t.Errorf("%q takes %d bytes as JSON, foreseen are %d", got, len(encoded)-2, Length(got))
		}
		if again := Text(got, limit); again != got {
			t.Errorf("cut again, %q becomes %q", got, again)
		}
	})
}
