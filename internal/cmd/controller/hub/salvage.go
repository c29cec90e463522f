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

// lost is a part of an object that its type here cannot hold, though its CustomResourceDefinition allows it.
type lost struct {
	// path leads to it: "status.agent.lastSeen", "status.resources[3].createdAt".
	path string
	// wanted is what it is not: "Time", "Quantity".
	wanted string
}

// String says what is wrong, and never the value, which may be anything.
func (l lost) String() string { return fmt.Sprintf("%.200s is no %s", l.path, l.wanted) }

// mostLost is how long the paths to what is lost in one part of an object may be together. Beyond that the part is
// lost as a whole, and not looked through to its end: whoever can write one unreadable value can write thousands.
const mostLost = 4 << 10

// salvage reads an object without what its type cannot hold: the smallest parts of which that is true are left out,
// an entry of a map, an element of a list, or, where it comes to that, the whole status. With an error it is no object.
func salvage(raw []byte, into runtime.Object) ([]lost, error) {
	s := &salvager{}
	rest, ok := s.value(raw, reflect.TypeOf(into).Elem(), "")
	if !ok {
		return nil, fmt.Errorf("nothing can be read as %T", into)
	}
	return s.lost, kjson.UnmarshalCaseSensitivePreserveInts(rest, into)
}

// salvageList is salvage for a list: each of its objects is read by itself, and those that are not whole are told of.
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
		object, _ := items.Index(i).Addr().Interface().(runtime.Object) // the scheme knows no other lists
		missing, err := salvage(document, object)
		if err != nil {
			return err
		}
		tell(object, missing)
	}
	return nil
}

// salvager goes down into what cannot be read as a whole.
type salvager struct{ lost []lost }

// value is what can be read of a document as a type, if it can be read at all without some parts of it.
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

// fields leaves out of an object what cannot be read; nil if it is none, or that is too much.
func (s *salvager) fields(raw json.RawMessage, path string, typeOf func(name string) reflect.Type) json.RawMessage {
	before := len(s.lost)
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		as := typeOf(name)
		if as == nil {
			continue // nobody reads it
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

// elements leaves out of a list what cannot be read; nil if it is none, or that is too much.
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

// part is value, and notes what cannot be read at all.
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

// encoded are the parts of a document put together again.
func encoded(parts any) json.RawMessage {
	text, err := json.Marshal(parts)
	if err != nil {
		return nil // they were read from JSON; and what cannot be read is lost
	}
	return text
}

// reads says whether a document can be read as a type, as objects are.
func reads(raw json.RawMessage, as reflect.Type) bool {
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(as).Interface()) == nil
}

// readsItself says whether a type has a form of its own in JSON, of which there are no parts.
func readsItself(as reflect.Type) bool {
	pointer := reflect.PointerTo(as)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldsOf finds the types of a struct's fields by their names in JSON; nil for a name it does not have.
func fieldsOf(as reflect.Type) func(name string) reflect.Type {
	return func(name string) reflect.Type {
		var inner reflect.Type
		for i := range as.NumField() {
			field := as.Field(i)
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case tag == name && tag != "" && tag != "-":
				return field.Type
			case tag == "" && field.Anonymous && field.Type.Kind() == reflect.Struct && inner == nil: // its fields stand for themselves
				inner = fieldsOf(field.Type)(name)
			}
		}
		return inner
	}
}

// nameOf is how people call a type.
func nameOf(as reflect.Type) string {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	if as.Name() == "" {
		return as.String()
	}
	return as.Name()
}
