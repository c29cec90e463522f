package drift

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestKeepIgnored_TakesLiveValues(t *testing.T) {
	t.Parallel()
	pointers := func(paths ...string) fleet.ComparePatch {
		return fleet.ComparePatch{APIVersion: "apps/v1", Kind: "*", JSONPointers: paths}
	}
	of := func(rule fleet.ComparePatch, apiVersion string) fleet.ComparePatch {
		rule.APIVersion = apiVersion
		return rule
	}
	operation := func(op, path string) fleet.ComparePatch {
		return fleet.ComparePatch{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c", Operations: []fleet.Operation{{Op: op, Path: path, Value: "z"}},
		}
	}
	const image, item = "/spec/template/spec/containers/0/image", "/spec/list/0/x"
	thing := func(list string) string { return custom + "spec: {list: [" + list + "]}}" }
	tests := map[string]struct {
		desired, live string
		rule          fleet.ComparePatch
		want          string
		replaced      bool
	}{
		"a field":                                      {deployment + "spec: {replicas: 2, paused: false}}", deployment + "spec: {replicas: 20, paused: true}}", pointers("/spec/replicas"), deployment + "spec: {replicas: 20, paused: false}}", false},
		"the live object lacks the field":              {deployment + "spec: {replicas: 2}}", deployment + "spec: {}}", pointers("/spec/replicas"), deployment + "spec: {}}", false},
		"the live object lacks the map":                {deployment + "spec: {replicas: 2}}", deployment + "}", pointers("/spec/replicas"), deployment + "spec: {replicas: 2}}", false},
		"only the live object has the field":           {deployment + "spec: {}}", deployment + "spec: {replicas: 2}}", pointers("/spec/replicas"), deployment + "spec: {}}", false},
		"only the live object has the field, replaced": {deployment + "spec: {}}", deployment + "spec: {replicas: 2}}", pointers("/spec/replicas"), deployment + "spec: {replicas: 2}}", true},
		"operation that removes":                       {configMap + "data: {a: b, c: d}}", configMap + "data: {a: x, c: x}}", operation("remove", "/data/a"), configMap + "data: {a: x, c: d}}", false},
		"operation that replaces":                      {configMap + "data: {a: b, c: d}}", configMap + "data: {a: x, c: x}}", operation("replace", "/data/a"), configMap + "data: {a: x, c: d}}", false},
		"operation that adds":                          {configMap + "data: {a: b, c: d}}", configMap + "data: {a: x, c: x}}", operation("add", "/data/a"), configMap + "data: {a: x, c: d}}", false},
		"text of a Secret":                             {secret + "stringData: {a: b}}", secret + "data: {a: eA==}}", of(pointers("/data/a"), "v1"), secret + "data: {a: eA==}}", false},
		"item of a list with a key, moved":             {containers("{name: a, image: i}"), containers("{name: side, image: z}, {name: a, image: j}"), pointers(image), containers("{name: a, image: j}"), false},
		"item of a list with a key, missing":           {containers("{name: a, image: i}"), containers("{name: b, image: j}"), pointers(image), containers("{name: a, image: i}"), false},
		"list that is replaced: corrected":             {thing("{x: 1, y: 2}, {x: 3}"), thing("{x: 5, y: 6}, {x: 7}"), of(pointers(item), "example.com/v1"), thing("{x: 1, y: 2}, {x: 3}"), false},
		"item in front: not its value":                 {thing("{n: app, x: 1}"), thing("{n: side, x: 5}, {n: app, x: 1}"), of(pointers(item), "example.com/v1"), thing("{n: app, x: 1}"), false},
		"whole item: corrected":                        {thing("1, 2"), thing("5, 6"), of(pointers("/spec/list/0"), "example.com/v1"), thing("1, 2"), false},
		"whole list":                                   {thing("1, 2"), thing("5"), of(pointers("/spec/list"), "example.com/v1"), thing("5"), false},
		"items that move: all are corrected":           {thing("1, 2, 3"), thing("5, 6, 7"), of(pointers("/spec/list/0", "/spec/list/1"), "example.com/v1"), thing("1, 2, 3"), false},
		"rule that does not match the object":          {deployment + "spec: {replicas: 2}}", deployment + "spec: {replicas: 3}}", of(pointers("/spec/replicas"), "batch/v1"), deployment + "spec: {replicas: 2}}", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := Input{Desired: object(t, test.desired), Live: object(t, test.live), Rules: rulesOf(test.rule)}
			got := KeepIgnored(in, comparer().kindOf(in.Desired.GroupVersionKind()).lists(), test.replaced)
			if diff := cmp.Diff(object(t, test.want), got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]any{object(t, test.desired), object(t, test.live)}, []any{in.Desired, in.Live}); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
		})
	}
}
