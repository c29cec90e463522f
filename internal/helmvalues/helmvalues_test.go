package helmvalues

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The hashes are those of Rancher Fleet.
func TestHash(t *testing.T) {
	tests := map[string]struct{ current, staged, want string }{
		"values alone":                       {`{"key":"value"}`, ``, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32"},
		"values and staged values":           {`{"key":"value"}`, `{"newkey":"value"}`, "01c44d8a446abccb870503db292e07cb2b8da135b6fec52b21048bdab8c84a7c"},
		"staged values alone: the same hash": {``, `{"key":"value"}`, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32"},
		"no values":                          {``, ``, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Hash([]byte(test.current), []byte(test.staged)); got != test.want {
				t.Errorf("hash %s, want %s", got, test.want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	tests := map[string]struct{ base, over, want string }{
		"nothing over nothing":         {`null`, `null`, `{}`},
		"something over nothing":       {`null`, `{"a":1}`, `{"a":1}`},
		"nothing over something":       {`{"a":1}`, `null`, `{"a":1}`},
		"the later wins":               {`{"a":1,"b":2}`, `{"a":3}`, `{"a":3,"b":2}`},
		"objects are merged":           {`{"a":{"b":1,"c":2}}`, `{"a":{"b":3,"d":4}}`, `{"a":{"b":3,"c":2,"d":4}}`},
		"an empty object changes none": {`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":1}}`},
		"lists are replaced":           {`{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		"an object over a text":        {`{"a":"x"}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		"a text over an object":        {`{"a":{"b":1}}`, `{"a":"x"}`, `{"a":"x"}`},
		"null over something":          {`{"a":{"b":1}}`, `{"a":null}`, `{"a":null}`},
		"something over null":          {`{"a":null}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		"nested objects are merged":    {`{"a":{"b":{"c":1}}}`, `{"a":{"b":{"d":2}}}`, `{"a":{"b":{"c":1,"d":2}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			base, over := values(t, test.base), values(t, test.over)
			if diff := cmp.Diff(values(t, test.want), Merge(base, over)); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(values(t, test.base), base); diff != "" {
				t.Errorf("the base was changed:\n%s", diff)
			}
			if diff := cmp.Diff(values(t, test.over), over); diff != "" {
				t.Errorf("what was laid over it was changed:\n%s", diff)
			}
			if diff := cmp.Diff(values(t, test.want), MergeInto(base, over)); diff != "" {
				t.Errorf("merged in place (-want +got):\n%s", diff)
			}
		})
	}
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
