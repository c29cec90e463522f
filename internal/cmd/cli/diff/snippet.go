package diff

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// options is the part of a fleet.yaml that has comparePatches.
type options struct {
	Diff struct {
		ComparePatches []fleet.ComparePatch `json:"comparePatches"`
	} `json:"diff"`
}

// snippet returns the comparePatches of a Bundle joined with those that make the modifications of resources count no
// longer: one operation for each field that a patch changes. The entries are sorted; operations of the Bundle come first.
// Missing and extra resources have no fields to leave out.
func snippet(own []fleet.ComparePatch, modified []fleet.ModifiedStatus) (out options, warnings []string) {
	joined := map[identity]*fleet.ComparePatch{}
	for _, patch := range own {
		join(joined, *patch.DeepCopy())
	}
	for _, m := range modified {
		if m.Missing || m.Delete || m.Patch == "" {
			continue
		}
		id := state.Describe(m.APIVersion, m.Kind, m.Namespace, m.Name)
		operations, err := removals(m.Patch)
		if err == nil && !isPlain(id) {
			err = errNotPlain
		}
		if err != nil {
			warnings = append(warnings, line(fmt.Sprintf("the patch of %.200s is left out: %v", id, err)))
			continue
		}
		join(joined, fleet.ComparePatch{APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Operations: operations})
	}
	out.Diff.ComparePatches = []fleet.ComparePatch{}
	for _, key := range slices.SortedFunc(maps.Keys(joined), identity.compare) {
		out.Diff.ComparePatches = append(out.Diff.ComparePatches, *joined[key])
	}
	return out, warnings
}

// identity identifies the resources of a comparePatch.
type identity struct{ apiVersion, kind, namespace, name string }

func (a identity) compare(b identity) int {
	return cmp.Or(cmp.Compare(a.apiVersion, b.apiVersion), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// join adds a patch. Operations and pointers that exist already are not repeated.
func join(joined map[identity]*fleet.ComparePatch, patch fleet.ComparePatch) {
	key := identity{patch.APIVersion, patch.Kind, patch.Namespace, patch.Name}
	before := joined[key]
	if before == nil {
		joined[key] = &patch
		return
	}
	before.Operations = union(before.Operations, patch.Operations)
	before.JSONPointers = union(before.JSONPointers, patch.JSONPointers)
}

func union[T comparable](base, more []T) []T {
	for _, one := range more {
		if !slices.Contains(base, one) {
			base = append(base, one)
		}
	}
	return base
}

// errNotPlain means that a name cannot be printed as it is.
var errNotPlain = errors.New("a name in it has characters that are not printable")

// decodePatch decodes a JSON document. Numbers keep their digits.
func decodePatch(patch string) (decoded any, err error) {
	decoder := json.NewDecoder(strings.NewReader(patch))
	decoder.UseNumber()
	if err := decoder.Decode(&decoded); err != nil {
		return nil, errors.New("it is not valid JSON, perhaps because it was cut")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is more than one JSON document")
	}
	return decoded, nil
}

// removals returns one operation for each leaf of a merge patch, in the order of their paths.
func removals(patch string) ([]fleet.Operation, error) {
	decoded, err := decodePatch(patch)
	if err != nil {
		return nil, err
	}
	fields, isObject := decoded.(map[string]any)
	if !isObject {
		return nil, errors.New("it is not a JSON object")
	}
	var operations []fleet.Operation
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		operations = appendLeaves(operations, "/"+escape(name), fields[name])
	}
	if slices.ContainsFunc(operations, func(o fleet.Operation) bool { return !isPlain(o.Path) }) {
		return nil, errNotPlain
	}
	return operations, nil
}

// appendLeaves appends the operations of a value. Lists and empty objects are leaves.
func appendLeaves(operations []fleet.Operation, path string, value any) []fleet.Operation {
	fields, isObject := value.(map[string]any)
	if !isObject || len(fields) == 0 {
		return append(operations, fleet.Operation{Op: "remove", Path: path})
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		operations = appendLeaves(operations, path+"/"+escape(name), fields[name])
	}
	return operations
}

// escape escapes a field's name for a JSON pointer.
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
