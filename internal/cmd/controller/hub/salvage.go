package hub

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// lost is a part of an object that its Go type cannot hold although its CustomResourceDefinition allows it.
type lost struct {
	// path is its path: "status.agent.lastSeen", "status.resources[3].createdAt".
	path string
	// wanted is the Go type that it does not fit: "Time", "Quantity".
	wanted string
}

// String describes the problem without the value, which may be anything.
func (l lost) String() string { return fmt.Sprintf("%.200s is not a valid %s", l.path, l.wanted) }

// mostLost limits the total length of the paths to undecodable parts in one part of an object, in bytes. Beyond this
// limit the whole part counts as undecodable, because a client that can write one invalid value can write thousands.
const mostLost = 4 << 10

// salvage decodes an object without the parts that its type cannot hold. It leaves out the smallest possible parts: an
// entry of a map, an element of a list or, in the worst case, the whole status. It returns an error if the document is
// not an object.
func salvage(raw []byte, into runtime.Object) ([]lost, error) {
	s := &salvager{}
	rest, ok := s.value(raw, reflect.TypeOf(into).Elem(), "")
	if !ok {
		return nil, fmt.Errorf("document is not a %T", into)
	}
	return s.lost, kjson.UnmarshalCaseSensitivePreserveInts(rest, into)
}

// salvageList is salvage for a list. It decodes each object separately, and reports the incomplete ones.
func salvageList(raw []byte, into runtime.Object, tell func(runtime.Object, []lost)) error {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	var documents []json.RawMessage
	if err := json.Unmarshal(parts["items"], &documents); err != nil {
		return err
	}
	delete(parts, "items")
	envelope, err := json.Marshal(parts)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(envelope, into)
	}
	if err != nil {
		return err
	}
	items := reflect.ValueOf(into).Elem().FieldByName("Items")
	items.Set(reflect.MakeSlice(items.Type(), len(documents), len(documents)))
	for i, document := range documents {
		object, _ := items.Index(i).Addr().Interface().(runtime.Object) // the scheme has no other lists
		missing, err := salvage(document, object)
		if err != nil {
			return err
		}
		tell(object, missing)
	}
	return nil
}

// salvager descends into values that cannot be decoded as a whole.
type salvager struct{ lost []lost }

// value returns the part of a document that fits a type. It returns false if nothing fits.
func (s *salvager) value(raw json.RawMessage, as reflect.Type, path string) (json.RawMessage, bool) {
	if reads(raw, as) {
		return raw, true
	}
	for as.Kind() == reflect.Pointer && !readsItself(as) {
		as = as.Elem()
	}
	rest := raw
	switch {
	case readsItself(as):
		return nil, false
	case as.Kind() == reflect.Struct:
		rest = s.fields(raw, path, fieldsOf(as))
	case as.Kind() == reflect.Map:
		rest = s.fields(raw, path, func(string) reflect.Type { return as.Elem() })
	case as.Kind() == reflect.Slice:
		rest = s.elements(raw, path, as.Elem())
	}
	return rest, reads(rest, as)
}

// fields removes the undecodable fields of an object. It returns nil if the document is not an object, or if too many
// fields are undecodable.
func (s *salvager) fields(raw json.RawMessage, path string, typeOf func(name string) reflect.Type) json.RawMessage {
	before := len(s.lost)
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		as := typeOf(name)
		if as == nil {
			continue // unknown field, which decoding ignores
		}
		if rest, ok := s.part(fields[name], as, joined(path, name)); ok {
			fields[name] = rest
		} else {
			delete(fields, name)
		}
		if path != "" && s.lostTooMuch(before) {
			return nil
		}
	}
	return encoded(fields)
}

// elements removes the undecodable elements of a list. It returns nil if the document is not a list, or if too many
// elements are undecodable.
func (s *salvager) elements(raw json.RawMessage, path string, as reflect.Type) json.RawMessage {
	before := len(s.lost)
	var elements, left []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil {
		return nil
	}
	for i, element := range elements {
		if rest, ok := s.part(element, as, path+"["+strconv.Itoa(i)+"]"); ok {
			left = append(left, rest)
		}
		if s.lostTooMuch(before) {
			return nil
		}
	}
	return encoded(left)
}

// part is value, and records a part that is undecodable as a whole.
func (s *salvager) part(raw json.RawMessage, as reflect.Type, path string) (json.RawMessage, bool) {
	before := len(s.lost)
	rest, ok := s.value(raw, as, path)
	if !ok {
		s.lost = append(s.lost[:before], lost{path, nameOf(as)})
	}
	return rest, ok
}

func (s *salvager) lostTooMuch(before int) bool {
	length := 0
	for _, l := range s.lost[before:] {
		length += len(l.path)
	}
	return length > mostLost
}

func joined(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// encoded joins the parts of a document again.
func encoded(parts any) json.RawMessage {
	text, err := json.Marshal(parts)
	if err != nil {
		return nil // cannot happen: the parts were decoded from JSON
	}
	return text
}

// reads reports whether a document can be decoded as a type, by the rules for API objects.
func reads(raw json.RawMessage, as reflect.Type) bool {
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(as).Interface()) == nil
}

// readsItself reports whether a type has its own JSON decoding, so that its parts cannot be decoded separately.
func readsItself(as reflect.Type) bool {
	pointer := reflect.PointerTo(as)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldsOf returns a function that maps JSON names to the types of a struct's fields, or to nil.
func fieldsOf(as reflect.Type) func(name string) reflect.Type {
	return func(name string) reflect.Type {
		var inner reflect.Type
		for i := range as.NumField() {
			field := as.Field(i)
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case tag == name && tag != "" && tag != "-":
				return field.Type
			case tag == "" && field.Anonymous && field.Type.Kind() == reflect.Struct && inner == nil: // an embedded struct
				inner = fieldsOf(field.Type)(name)
			}
		}
		return inner
	}
}

// nameOf returns a readable name of a type.
func nameOf(as reflect.Type) string {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	if as.Name() == "" {
		return as.String()
	}
	return as.Name()
}
