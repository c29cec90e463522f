package parity

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Field is one field of one object on both sides.
type Field struct {
	// Object is the String of the recorded object, or of ours if none is recorded.
	Object string
	// Path is the field's path: spec.containers[agent].env[0].name, metadata.labels[fleet.cattle.io/cluster].
	Path string
	// Recorded and Ours are JSON. Empty means that this side does not have the field.
	Recorded, Ours string
}

// Comparison is the result of Compare.
type Comparison struct {
	// Objects is the number of recorded objects.
	Objects int
	// Fields are all fields of both sides, sorted by object and path.
	Fields []Field
	// Missing are recorded objects that we do not have. Added are our objects that were not recorded.
	Missing, Added map[string]bool
	// Twice are keys that occur twice on one side: their names do not identify the objects.
	Twice []string
}

// Compare compares the fields of both sides. renamed maps recorded objects to our objects with other names, both
// as String.
func Compare(recorded, ours []Object, renamed map[string]string) Comparison {
	c := Comparison{Objects: len(recorded), Missing: map[string]bool{}, Added: map[string]bool{}}
	left, right := c.index(recorded), c.index(ours)
	for _, key := range slices.Sorted(maps.Keys(left)) {
		other := key
		if name, ok := renamed[key]; ok {
			other = name
		}
		mine, found := right[other]
		c.Missing[key] = !found
		c.add(key, left[key], mine)
		delete(right, other)
	}
	for _, key := range slices.Sorted(maps.Keys(right)) {
		c.Added[key] = true
		c.add(key, nil, right[key])
	}
	return c
}

// index returns the fields of each object.
func (c *Comparison) index(objects []Object) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, o := range objects {
		if _, twice := all[o.String()]; twice {
			c.Twice = append(c.Twice, o.String())
		}
		all[o.String()] = Flatten(o.Fields)
	}
	return all
}

func (c *Comparison) add(object string, recorded, ours map[string]string) {
	paths := slices.AppendSeq(slices.Collect(maps.Keys(recorded)), maps.Keys(ours))
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		c.Fields = append(c.Fields, Field{Object: object, Path: path, Recorded: recorded[path], Ours: ours[path]})
	}
}

// Flatten returns every leaf of an object under its path, as JSON. Entries of a list are identified by their
// names if each has one, otherwise by their index. The order of named entries is then a separate field, except
// for conditions, whose order has no meaning.
func Flatten(fields map[string]any) map[string]string {
	flat := map[string]string{}
	flatten("", fields, flat)
	return flat
}

func flatten(path string, value any, into map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, entry := range v {
			flatten(join(path, key), entry, into)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		keys, named := keysOf(v)
		for i, entry := range v {
			flatten(path+"["+keys[i]+"]", entry, into)
		}
		if named && !strings.HasSuffix(path, "conditions") {
			into[path+"[order]"] = text(keys)
		}
		if len(v) > 0 {
			return
		}
	}
	into[path] = text(value)
}

// join adds a key to a path. A key with path characters is put in brackets.
func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[] "):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// keysOf returns what identifies the entries of a list: their names or types, or else their indices.
func keysOf(list []any) (keys []string, named bool) {
	for _, by := range []string{"name", "type"} {
		keys = nil
		for _, entry := range list {
			fields, _ := entry.(map[string]any)
			if key, ok := fields[by].(string); ok && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
		if len(keys) == len(list) && len(list) > 0 {
			return keys, true
		}
	}
	keys = make([]string, len(list))
	for i := range list {
		keys[i] = fmt.Sprint(i)
	}
	return keys, false
}

// text returns a value as JSON. Values from JSON can always be encoded.
func text(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return strings.TrimSpace(out.String())
}
