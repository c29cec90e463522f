package machine

import (
	"fmt"
	"strings"
	"testing"
)

func TestInvalidDefinitions_AreRejected(t *testing.T) {
	tests := map[string]struct{ content, want string }{
		"valid":            {`{"command": ["etcd", "--data-dir=x", ""]}`, ""},
		"not JSON":         {`x`, "its definition is invalid: "},
		"a list":           {`["etcd"]`, "its definition is invalid: "},
		"unknown field":    {`{"command": ["etcd"], "user": "root"}`, `its definition is invalid: json: unknown field "user"`},
		"no command":       {`{}`, "its definition has no valid command"},
		"empty command":    {`{"command": []}`, "its definition has no valid command"},
		"empty program":    {`{"command": ["", "x"]}`, "its definition has no valid command"},
		"zero byte":        {`{"command": ["a\u0000b"]}`, "its definition has no valid command"},
		"too long":         {`{"command": ["` + strings.Repeat("x", maxDefinition) + `"]}`, "its definition has more than 65536 bytes"},
		"repeated command": {`{"command": ["a"], "command": []}`, "its definition has no valid command"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := decodeDefinition([]byte(test.content))
			if test.want == "" && err != nil || test.want != "" && !strings.HasPrefix(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, error %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestInvalidNamesOfServices_AreRejected(t *testing.T) {
	for name, valid := range map[string]bool{
		"etcd": true, "kube-apiserver": true, "0": true, strings.Repeat("x", 63): true,
		"": false, strings.Repeat("x", 64): false, "Etcd": false, "a/b": false, "..": false, ".a": false, "-a": false, "a.new": false, "bootstrap": false, "machine": false, "a\n": false,
	} {
		if err := checkName(name); (err == nil) != valid {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func FuzzDecodeDefinition(f *testing.F) {
	for _, seed := range []string{`{"command": ["etcd", "x"]}`, `{"command": null}`, `{"command": ["a\u0000"]}`, `{"Command": ["a"]}`, `[]`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		d, err := decodeDefinition(content)
		if err == nil && (len(d.Command) == 0 || d.Command[0] == "" || strings.ContainsRune(strings.Join(d.Command, ""), 0)) {
			t.Errorf("accepted %q", d.Command)
		}
	})
}
