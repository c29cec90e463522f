package parity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/parity"
)

func TestFlatten_ReturnsEveryLeaf(t *testing.T) {
	tests := map[string]struct {
		is   string
		want map[string]string
	}{
		"leaves: path and JSON": {
			"{a: {b: text, int: 1, float: 1.5, flag: true, none: null}}",
			map[string]string{"a.b": `"text"`, "a.int": "1", "a.float": "1.5", "a.flag": "true", "a.none": "null"},
		},
		"empty values: leaves": {
			"{a: {}, b: [], c: ''}",
			map[string]string{"a": "{}", "b": "[]", "c": `""`},
		},
		"keys with path characters: in brackets": {
			"{metadata: {labels: {fleet.cattle.io/cluster: east}}}",
			map[string]string{"metadata.labels[fleet.cattle.io/cluster]": `"east"`},
		},
		"list of values: indices": {
			"{rules: [{verbs: [get, list]}]}",
			map[string]string{"rules[0].verbs[0]": `"get"`, "rules[0].verbs[1]": `"list"`},
		},
		"named entries: names and order": {
			"{env: [{name: B, value: x}, {name: A}]}",
			map[string]string{"env[B].name": `"B"`, "env[B].value": `"x"`, "env[A].name": `"A"`, "env[order]": `["B","A"]`},
		},
		"duplicate names: indices": {
			"{list: [{name: a}, {name: a}]}",
			map[string]string{"list[0].name": `"a"`, "list[1].name": `"a"`},
		},
		"conditions: no order": {
			"{status: {conditions: [{type: Ready}, {type: Done}]}}",
			map[string]string{"status.conditions[Ready].type": `"Ready"`, "status.conditions[Done].type": `"Done"`},
		},
		"strings: not escaped": {
			"{a: '<b> & c'}",
			map[string]string{"a": `"<b> & c"`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parity.Flatten(parsed(t, test.is))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompare_NamesDifferences(t *testing.T) {
	role := func(name, fields string) parity.Object {
		return on(t, "hub", "{kind: Role, metadata: {name: "+name+"}"+fields+"}")
	}
	same := func(object, name string) []parity.Field {
		return []parity.Field{
			{Object: object, Path: "kind", Recorded: `"Role"`, Ours: `"Role"`},
			{Object: object, Path: "metadata.name", Recorded: `"` + name + `"`, Ours: `"` + name + `"`},
		}
	}
	tests := map[string]struct {
		recorded, ours []parity.Object
		renamed        map[string]string
		want           parity.Comparison
	}{
		"equal objects": {
			recorded: []parity.Object{role("a", "")}, ours: []parity.Object{role("a", "")},
			want: parity.Comparison{Objects: 1, Missing: map[string]bool{"hub Role /a": false}, Added: map[string]bool{}, Fields: same("hub Role /a", "a")},
		},
		"different fields": {
			recorded: []parity.Object{role("a", ", left: 1, number: 1")}, ours: []parity.Object{role("a", ", number: 2, right: 1")},
			want: parity.Comparison{Objects: 1, Missing: map[string]bool{"hub Role /a": false}, Added: map[string]bool{}, Fields: []parity.Field{
				same("hub Role /a", "a")[0], {Object: "hub Role /a", Path: "left", Recorded: "1"}, same("hub Role /a", "a")[1],
				{Object: "hub Role /a", Path: "number", Recorded: "1", Ours: "2"}, {Object: "hub Role /a", Path: "right", Ours: "1"},
			}},
		},
		"different objects": {
			recorded: []parity.Object{role("a", "")}, ours: []parity.Object{role("b", "")},
			want: parity.Comparison{Objects: 1, Missing: map[string]bool{"hub Role /a": true}, Added: map[string]bool{"hub Role /b": true}, Fields: []parity.Field{
				{Object: "hub Role /a", Path: "kind", Recorded: `"Role"`}, {Object: "hub Role /a", Path: "metadata.name", Recorded: `"a"`},
				{Object: "hub Role /b", Path: "kind", Ours: `"Role"`}, {Object: "hub Role /b", Path: "metadata.name", Ours: `"b"`},
			}},
		},
		"renamed object": {
			recorded: []parity.Object{role("a", "")}, ours: []parity.Object{role("b", "")}, renamed: map[string]string{"hub Role /a": "hub Role /b"},
			want: parity.Comparison{Objects: 1, Missing: map[string]bool{"hub Role /a": false}, Added: map[string]bool{}, Fields: []parity.Field{
				same("hub Role /a", "a")[0], {Object: "hub Role /a", Path: "metadata.name", Recorded: `"a"`, Ours: `"b"`},
			}},
		},
		"same object on another cluster": {
			recorded: []parity.Object{{Cluster: "west", Fields: map[string]any{}}}, ours: []parity.Object{{Cluster: "east", Fields: map[string]any{}}},
			want: parity.Comparison{Objects: 1, Missing: map[string]bool{"west  /": true}, Added: map[string]bool{"east  /": true}, Fields: []parity.Field{
				{Object: "west  /", Recorded: "{}"}, {Object: "east  /", Ours: "{}"},
			}},
		},
		"duplicate name": {
			recorded: []parity.Object{role("a", "")}, ours: []parity.Object{role("a", ""), role("a", "")},
			want: parity.Comparison{Objects: 1, Missing: map[string]bool{"hub Role /a": false}, Added: map[string]bool{}, Fields: same("hub Role /a", "a"), Twice: []string{"hub Role /a"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parity.Compare(test.recorded, test.ours, test.renamed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
