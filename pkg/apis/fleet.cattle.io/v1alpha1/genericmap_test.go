package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestGenericMap_EncodesAsPlainObject(t *testing.T) {
	tests := map[string]struct {
		text string
		want map[string]any
	}{
		"null":                           {`null`, nil},
		"an empty object":                {`{}`, map[string]any{}},
		"a whole number":                 {`{"n":1}`, map[string]any{"n": int64(1)}},
		"large number: keeps all digits": {`{"n":9007199254740993}`, map[string]any{"n": int64(9007199254740993)}},
		"a fraction":                     {`{"n":1.5}`, map[string]any{"n": 1.5}},
		"nested values":                  {`{"a":{"b":[1,"x",true,null,{}]}}`, map[string]any{"a": map[string]any{"b": []any{int64(1), "x", true, nil, map[string]any{}}}}},
		"templates":                      {`{"a":"${ .ClusterName }"}`, map[string]any{"a": "${ .ClusterName }"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := fleet.GenericMap{Data: map[string]any{"left": "over"}}
			if err := json.Unmarshal([]byte(test.text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Data); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != test.text {
				t.Errorf("written as %s, want %s", text, test.text)
			}
		})
	}
}

func TestGenericMap_RefusesOtherTypesThanObjects(t *testing.T) {
	for _, text := range []string{`[]`, `"x"`, `1`, `true`, `{`, ``} {
		t.Run(text, func(t *testing.T) {
			var got fleet.GenericMap
			if err := json.Unmarshal([]byte(text), &got); err == nil {
				t.Errorf("read as %v", got.Data)
			}
		})
	}
}

func TestGenericMapCopy_SharesNoMemory(t *testing.T) {
	tests := map[string]struct {
		change func(original map[string]any)
	}{
		"a key is added":            {func(m map[string]any) { m["new"] = true }},
		"a nested key is changed":   {func(m map[string]any) { m["object"].(map[string]any)["a"] = "changed" }},
		"a list's item is changed":  {func(m map[string]any) { m["list"].([]any)[0] = "changed" }},
		"an object in a list":       {func(m map[string]any) { m["list"].([]any)[1].(map[string]any)["b"] = "changed" }},
		"a key is removed":          {func(m map[string]any) { delete(m, "int") }},
		"a list in a list":          {func(m map[string]any) { m["list"].([]any)[2].([]any)[0] = "changed" }},
		"a nil list stays nil":      {func(m map[string]any) { m["nil list"] = []any{} }},
		"a nil object stays nil":    {func(m map[string]any) { m["nil object"] = map[string]any{} }},
		"a Go int does not matter":  {func(m map[string]any) { m["int"] = 2 }},
		"a Go list does not either": {func(m map[string]any) { m["strings"] = nil }},
	}
	build := func() map[string]any {
		return map[string]any{
			"object":     map[string]any{"a": "b"},
			"list":       []any{int64(1), map[string]any{"b": "c"}, []any{1.5}},
			"nil list":   []any(nil),
			"nil object": map[string]any(nil),
			"int":        1,
			"strings":    []string{"x"},
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			original := &fleet.GenericMap{Data: build()}
			copied := original.DeepCopy()
			test.change(original.Data)
			if diff := cmp.Diff(build(), copied.Data); diff != "" {
				t.Errorf("the copy changed (-want +got):\n%s", diff)
			}
			if cmp.Equal(build(), original.Data) {
				t.Error("the original did not change: this row tests nothing")
			}
		})
	}
}

func TestCopyOfNilGenericMap_IsNil(t *testing.T) {
	if got := (*fleet.GenericMap)(nil).DeepCopy(); got != nil {
		t.Errorf("got %v", got)
	}
	if got := (&fleet.GenericMap{}).DeepCopy(); got == nil || got.Data != nil {
		t.Errorf("got %v, want an empty GenericMap with nil Data", got)
	}
}

func TestCompactGenericMap_IsWrittenAlike(t *testing.T) {
	for _, text := range []string{`{"a":{"b":[1,1.5,"<x>",null]}}`, `{}`, `null`} {
		var read fleet.GenericMap
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		compact := read.Compact()
		for what, m := range map[string]*fleet.GenericMap{"compact": compact, "a copy": compact.DeepCopy(), "compact twice": compact.Compact()} {
			got, err := json.Marshal(m)
			if err != nil || string(got) != string(want) || len(m.Data) > 0 {
				t.Errorf("%s: %s with %d keys, %v; want %s", what, got, len(m.Data), err, want)
			}
		}
		if err := json.Unmarshal([]byte(`{"b":2}`), compact); err != nil || compact.Data["b"] != int64(2) || compact.Text != "" {
			t.Errorf("read again: %+v, %v", compact, err)
		}
	}
	if unencodable := (&fleet.GenericMap{Data: map[string]any{"f": func() {}}}).Compact(); unencodable.Data == nil {
		t.Error("data that cannot be encoded is lost")
	}
}

func FuzzGenericMap(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `{"a":{"b":[1,1.5,"x",null,true]}}`, `{"n":1e400}`, `{"n":9223372036854775808}`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first fleet.GenericMap
		if json.Unmarshal(text, &first) != nil {
			t.Skip()
		}
		written, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		var second fleet.GenericMap
		if err := json.Unmarshal(written, &second); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		rewritten, err := json.Marshal(second)
		if err != nil || string(written) != string(rewritten) {
			t.Errorf("written as %s, then as %s (%v)", written, rewritten, err)
		}
	})
}
