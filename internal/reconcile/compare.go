package reconcile

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AnnotationLabelKeys lists the keys of our labels on an object to which others may add labels. A label with a listed
// key that is no longer desired is removed. Changing this annotation's key orphans such labels.
const AnnotationLabelKeys = "fleet.cattle.io/label-keys"

func splitPath(field string) path { return strings.Split(field, ".") }

// ownedFields returns the fields of a child that we own, in addition to labels, annotations and owner references. A
// ServiceAccount's list of Secrets and a Namespace's finalizers belong to Kubernetes.
func ownedFields(kind string) []path {
	switch kind {
	case "Namespace", "ServiceAccount":
		return nil
	case "Secret", "ConfigMap":
		return []path{{"data"}}
	case "Role", "ClusterRole":
		return []path{{"rules"}}
	case "RoleBinding", "ClusterRoleBinding":
		return []path{{"subjects"}}
	default:
		return []path{{"spec"}}
	}
}

// mustRecreate reports whether an immutable field differs.
func mustRecreate(kind string, live, desired map[string]any) bool {
	if kind == "Secret" {
		return text(live["type"], "Opaque") != text(desired["type"], "Opaque")
	}
	return slices.ContainsFunc(fixedFields(kind), func(field path) bool { return !reflect.DeepEqual(at(live, field), at(desired, field)) })
}

func text(value any, fallback string) string {
	if s, ok := value.(string); ok && s != "" {
		return s
	}
	return fallback
}

// patchFor returns the merge patch that brings live to the desired state. It returns nil if nothing differs.
func (k Kind) patchFor(live, desired map[string]any) ([]byte, error) {
	changes := map[string]any{}
	for _, field := range k.owned {
		k.compareField(changes, live, desired, field)
	}
	meta := k.compareMeta(mapAt(live, "metadata"), mapAt(desired, "metadata"))
	if len(meta) > 0 {
		changes["metadata"] = meta
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return json.Marshal(changes)
}

// compareField adds the change of a field that we own completely: entries that are not desired are removed.
func (k Kind) compareField(changes, live, desired map[string]any, field path) {
	found, wanted := at(live, field), at(desired, field)
	if reflect.DeepEqual(found, wanted) || isEmpty(found) && isEmpty(wanted) {
		return
	}
	foundMap, wasMap := found.(map[string]any)
	wantedMap, isMap := wanted.(map[string]any)
	if wasMap && isMap {
		wanted = mergeDiff(foundMap, wantedMap)
	}
	target := changes
	for _, name := range field[:len(field)-1] {
		next, ok := target[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			target[name] = next
		}
		target = next
	}
	target[field[len(field)-1]] = wanted
}

func (k Kind) compareMeta(live, desired map[string]any) map[string]any {
	changes := map[string]any{}
	labels := missing(mapAt(live, "labels"), mapAt(desired, "labels"))
	if k.tracks {
		dropLabels(labels, live, desired)
	}
	if len(labels) > 0 {
		changes["labels"] = labels
	}
	annotations := missing(mapAt(live, "annotations"), mapAt(desired, "annotations"))
	for _, key := range k.drops {
		if _, there := mapAt(live, "annotations")[key]; there {
			annotations[key] = nil
		}
	}
	if len(annotations) > 0 {
		changes["annotations"] = annotations
	}
	if owners, changed := withOwners(live["ownerReferences"], desired["ownerReferences"]); changed {
		changes["ownerReferences"] = owners
		changes["resourceVersion"] = live["resourceVersion"] // replaces the list: must fail if it changed
	}
	return changes
}

// missing returns the wanted entries that are absent or differ.
func missing(found, wanted map[string]any) map[string]any {
	changes := map[string]any{}
	for key, value := range wanted {
		if have, ok := found[key]; !ok || have != value {
			changes[key] = value
		}
	}
	return changes
}

// dropLabels adds the removal of labels that were ours.
func dropLabels(changes, live, desired map[string]any) {
	wanted := mapAt(desired, "labels")
	ours := text(mapAt(live, "annotations")[AnnotationLabelKeys], "")
	for _, key := range strings.Split(ours, ",") {
		_, stays := wanted[key]
		_, there := mapAt(live, "labels")[key]
		if there && !stays {
			changes[key] = nil
		}
	}
}

// withOwners adds the wanted owner references to the existing ones.
func withOwners(found, wanted any) (owners []any, changed bool) {
	owners, _ = found.([]any)
	owners = slices.Clone(owners)
	references, _ := wanted.([]any)
	for _, reference := range references {
		uid := at(reference, path{"uid"})
		if !slices.ContainsFunc(owners, func(o any) bool { return at(o, path{"uid"}) == uid }) {
			owners, changed = append(owners, reference), true
		}
	}
	return owners, changed
}

// trackLabels records the keys of an object's labels in its annotation.
func trackLabels(obj Object) {
	keys := slices.Sorted(maps.Keys(obj.GetLabels()))
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == fleet.LabelSetHash })
	annotate(obj, AnnotationLabelKeys, strings.Join(keys, ","))
}

func at(value any, field path) any {
	for _, name := range field {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = inner[name]
	}
	return value
}

func mapAt(obj map[string]any, field string) map[string]any {
	inner, _ := obj[field].(map[string]any)
	return inner
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}
