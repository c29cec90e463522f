package hub

import (
	"bytes"
	"sync"
)

// leftOut says by their names which fields are left out of a document: those without fields of their own, and in others
// what is said of these. What is said of a list holds for each of its elements.
type leftOut map[string]leftOut

// leftOutOf are the fields of a kind that no controller reads, and that caches drop when they have been decoded: decoding is
// half of what a hub does when it starts, and this is half of what there is to decode. Some are left out in events of
// watches, which go into caches, and not in answers: who wrote which field is asked of Clusters.
func leftOutOf(kind string) (inEvents, inAnswers leftOut) {
	leave := leftOut{"metadata": {"managedFields": nil}}
	switch kind {
	case "Cluster":
		return leave, nil
	case "BundleDeployment":
		leave["status"] = leftOut{"resources": nil}
	case "Content":
		leave["content"] = nil
	}
	return leave, leave
}

// leftOutOfLists are the fields that are left out of a list of a kind, which goes into a cache as events do.
func leftOutOfLists(of string) leftOut {
	inEvents, _ := leftOutOf(of)
	return leftOut{"items": inEvents}
}

// longestKept is how large a buffer may be that is used again.
const longestKept = 64 << 10

// trims are buffers of documents that something was left out of.
type trims struct{ sync.Pool }

func newTrims() *trims { return &trims{sync.Pool{New: func() any { return new(bytes.Buffer) }}} }

// without calls read with a document in which these fields are null. Whether what was there is well-formed, nobody looks;
// a document that is not written as API servers write it, without spaces, stays as it is. Read must not keep it.
func (b *trims) without(leave leftOut, data []byte, read func([]byte) error) error {
	if len(leave) == 0 {
		return read(data)
	}
	t := trimmer{data: data}
	if !t.within(leave) || t.at != len(data) || len(t.cuts) == 0 {
		return read(data)
	}
	buffer, _ := b.Get().(*bytes.Buffer) // New makes no others
	defer func() {
		if buffer.Cap() <= longestKept {
			buffer.Reset()
			b.Put(buffer)
		}
	}()
	from := 0
	for _, cut := range t.cuts {
		buffer.Write(data[from:cut.begin])
		buffer.WriteString("null")
		from = cut.end
	}
	buffer.Write(data[from:])
	return read(buffer.Bytes())
}

// trimmer goes once through a document.
type trimmer struct {
	data []byte
	at   int
	cuts []cut
}

// cut is a value that is left out, from its first byte to the one behind it.
type cut struct{ begin, end int }

// within goes past a value, and finds what is to be left out of it.
func (t *trimmer) within(leave leftOut) bool {
	switch {
	case len(leave) == 0:
		return t.value()
	case t.take('{'):
		return t.fields(leave)
	case t.take('['):
		return t.elements(leave)
	default:
		return t.value()
	}
}

// elements goes through a list, from behind its first bracket.
func (t *trimmer) elements(leave leftOut) bool {
	if t.take(']') {
		return true
	}
	for t.within(leave) {
		if !t.take(',') {
			return t.take(']')
		}
	}
	return false
}

// fields goes through an object, from behind its first bracket.
func (t *trimmer) fields(leave leftOut) bool {
	if t.take('}') {
		return true
	}
	for {
		name, ok := t.text()
		if !ok || !t.take(':') {
			return false
		}
		begin := t.at
		inner, named := leave[string(name)]
		if !t.within(inner) {
			return false
		}
		if named && len(inner) == 0 {
			t.cuts = append(t.cuts, cut{begin, t.at})
		}
		if !t.take(',') {
			return t.take('}')
		}
	}
}

// value goes past a value.
func (t *trimmer) value() bool {
	for depth := 0; t.at < len(t.data); {
		switch t.data[t.at] {
		case '"':
			if _, ok := t.text(); !ok {
				return false
			}
		case '{', '[':
			depth++
			t.at++
			continue
		case '}', ']':
			depth--
			t.at++
		default: // a number, or true, false or null; within an object or a list, also what is between values
			t.at++
			if depth > 0 || t.inLiteral() {
				continue
			}
		}
		if depth <= 0 {
			return depth == 0
		}
	}
	return false
}

// inLiteral says whether the next byte belongs to the same number or word.
func (t *trimmer) inLiteral() bool {
	return t.at < len(t.data) && !bytes.ContainsRune([]byte(`,:{}[]"`), rune(t.data[t.at]))
}

// text goes past a string, and returns what is between its quotes.
func (t *trimmer) text() ([]byte, bool) {
	if !t.take('"') {
		return nil, false
	}
	begin := t.at
	for {
		length := bytes.IndexByte(t.data[t.at:], '"')
		if length < 0 {
			return nil, false
		}
		t.at += length + 1
		escapes := 0
		for end := t.at - 2; end >= begin && t.data[end] == '\\'; end-- {
			escapes++
		}
		if escapes%2 == 0 {
			return t.data[begin : t.at-1], true
		}
	}
}

// take goes past this byte, if it is the next one.
func (t *trimmer) take(b byte) bool {
	if t.at >= len(t.data) || t.data[t.at] != b {
		return false
	}
	t.at++
	return true
}
