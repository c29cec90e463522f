package pack

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// keyChecker compares the keys of a document with the fields of a type.
type keyChecker struct {
	warnings
	// seen are the nodes with an anchor that were checked.
	seen map[*yaml.Node]bool
}

func (c *keyChecker) check(node *yaml.Node, kind reflect.Type, path string) {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Anchor != "" {
		if c.seen[node] {
			return
		}
		c.seen[node] = true
	}
	switch {
	case node.Kind == yaml.SequenceNode && kind.Kind() == reflect.Slice:
		for _, item := range node.Content {
			c.check(item, kind.Elem(), path)
		}
	case node.Kind == yaml.MappingNode && kind.Kind() == reflect.Struct && !decodesItself(kind):
		c.checkObject(node, kind, path)
	}
}

// checkObject checks the keys of an object.
func (c *keyChecker) checkObject(node *yaml.Node, kind reflect.Type, path string) {
	fields, seen := fieldsOf(kind), map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if seen[key.Value] {
			c.add(key.Line, "key %q is given twice: only the last one has an effect", shortened(path+key.Value))
			continue
		}
		seen[key.Value] = true
		c.checkKey(key, node.Content[i+1], kind, fields, path)
	}
}

func (c *keyChecker) checkKey(key, value *yaml.Node, kind reflect.Type, fields map[string]reflect.Type, path string) {
	if key.Tag == "!!merge" {
		c.checkMerged(value, kind, path)
		return
	}
	where := path + key.Value
	if isInternal(kind, key.Value) {
		c.add(key.Line, "key %q is ignored: only hubs set it", where)
		return
	}
	if name, ignored := rootOnly(where); ignored {
		c.add(key.Line, "key %q is ignored in a target; set %s for all clusters, outside of targets", where, name)
		return
	}
	for name, field := range fields {
		if strings.EqualFold(name, key.Value) {
			c.check(value, field, where+".")
			return
		}
	}
	if near := nearest(key.Value, fields); near != "" {
		c.add(key.Line, "unknown key %q is ignored; did you mean %q?", shortened(where), path+near)
		return
	}
	c.add(key.Line, "unknown key %q is ignored", shortened(where))
}

// checkMerged checks an object, or each object of a list, that a merge key adds.
func (c *keyChecker) checkMerged(value *yaml.Node, kind reflect.Type, path string) {
	if value.Kind != yaml.SequenceNode {
		c.check(value, kind, path)
		return
	}
	for _, item := range value.Content {
		c.check(item, kind, path)
	}
}

// decodesItself reports whether any key is valid in a type.
func decodesItself(kind reflect.Type) bool {
	return reflect.PointerTo(kind).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]())
}

// fieldsOf returns the fields of a type by their names in JSON, with those of embedded types.
func fieldsOf(kind reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			for name, inner := range fieldsOf(field.Type) {
				if _, outer := fields[name]; !outer {
					fields[name] = inner
				}
			}
		case name != "-" && !isInternal(kind, name):
			fields[name] = field.Type
		}
	}
	return fields
}

// isInternal reports whether dropInternal drops a key of a type.
func isInternal(kind reflect.Type, key string) bool {
	internal := []string{"overwrites", "allowedTargetNamespaceSelector"}
	switch kind {
	case reflect.TypeFor[document](), reflect.TypeFor[fleet.BundleSpec]():
		internal = append(internal, "resources", "targetRestrictions", "contentsId", "helmOpOptions", "valuesHash")
	case reflect.TypeFor[fleet.BundleTarget](), reflect.TypeFor[fleet.BundleDeploymentOptions]():
	default:
		return false
	}
	return slices.ContainsFunc(internal, func(name string) bool { return strings.EqualFold(name, key) })
}

// rootOnly reports whether a key of a target is ignored, because only those of the Bundle itself have an effect.
func rootOnly(where string) (name string, ignored bool) {
	list, inner, _ := strings.Cut(where, ".")
	if !strings.EqualFold(list, "targets") && !strings.EqualFold(list, "targetCustomizations") {
		return "", false
	}
	for _, name := range targeting.RootOnly() {
		if strings.EqualFold(name, inner) {
			return name, true
		}
	}
	return "", false
}

// nearest returns the name that a key probably stands for, or empty.
func nearest(key string, fields map[string]reflect.Type) string {
	best, least := "", max(2, len(key)/3)+1
	if len(key) > 64 {
		return ""
	}
	for name := range fields {
		distance := distance(strings.ToLower(key), strings.ToLower(name))
		if distance < least || distance == least && best != "" && name < best {
			best, least = name, distance
		}
	}
	return best
}

// distance returns the number of characters to insert, delete or replace to get from one text to the other.
func distance(from, to string) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(to) {
			cost := diagonal
			if from[i] != to[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
