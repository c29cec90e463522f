package hub

import (
	"bytes"
	"sync"
)

// leftOut names the fields that are left out of a document. A name without fields of its own is left out completely.
// Otherwise the fields below it are. For a list, the names apply to each element.
type leftOut map[string]leftOut

// leftOutOf returns the fields of a kind that no controller reads and that caches drop after decoding. Decoding is
// half of a hub's work at startup, and these fields are half of the data to decode. Some fields are left out only in
// watch events, which go into caches, and not in other responses: the managed fields of Clusters are read.
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

// leftOutOfLists returns the fields that are left out of a list of a kind. Lists go into caches like events.
func leftOutOfLists(of string) leftOut {
	inEvents, _ := leftOutOf(of)
	return leftOut{"items": inEvents}
}

// longestKept is the maximum size of a buffer that is reused, in bytes.
const longestKept = 64 << 10

// trims is a pool of buffers for trimmed documents.
type trims struct{ sync.Pool }

func newTrims() *trims { return &trims{sync.Pool{New: func() any { return new(bytes.Buffer) }}} }

// without calls read with a document in which these fields are null. It does not check whether the removed values are
// well-formed. A document that is not written like the API server's, without spaces, is passed unchanged. read must
// not keep the document.
func (b *trims) without(leave leftOut, data []byte, read func([]byte) error) error {
	if len(leave) == 0 {
		return read(data)
	}
	t := trimmer{data: data}
	if !t.within(leave) || t.at != len(data) || len(t.cuts) == 0 {
		return read(data)
	}
	buffer, _ := b.Get().(*bytes.Buffer) // New creates no other type
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

// trimmer scans a document once.
type trimmer struct {
	data []byte
	at   int
	cuts []cut
}

// cut is a value that is left out: from its first byte to the byte after it.
type cut struct{ begin, end int }

// within skips a value, and finds the fields to leave out of it.
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

// elements scans a list, starting after its opening bracket.
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

// fields scans an object, starting after its opening brace.
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

// value skips a value.
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
		default: // a number, true, false or null; inside an object or a list, also separators
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

// inLiteral reports whether the next byte belongs to the same number or word.
func (t *trimmer) inLiteral() bool {
	return t.at < len(t.data) && !bytes.ContainsRune([]byte(`,:{}[]"`), rune(t.data[t.at]))
}

// text skips a string, and returns the bytes between its quotes.
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

// take skips this byte if it is the next one.
func (t *trimmer) take(b byte) bool {
	if t.at >= len(t.data) || t.data[t.at] != b {
		return false
	}
	t.at++
	return true
}
