package hub

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// quickEvents splits the events of a watch without parsing them. The general serializer reads each event three times
// before it decodes the object: to find its end, its kind and its two fields. But an API server writes each event on a
// line of its own:
//
//	{"type":"MODIFIED","object":{…}}
//
// After any other format, watches use the general serializer. The first such watch may end with an error and is
// restarted, like other watches.
type quickEvents struct {
	general *runtime.StreamSerializerInfo
	// odd is set permanently once a server has written another format.
	odd *atomic.Bool
}

func (q quickEvents) info() *runtime.StreamSerializerInfo {
	out := *q.general
	out.Framer, out.Serializer = q, eventReader{Serializer: q.general.Serializer, odd: q.odd}
	return &out
}

// NewFrameReader returns a reader of single events. Like any frame reader, it fills a buffer that is too small and
// returns io.ErrShortBuffer.
func (q quickEvents) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	if q.odd.Load() {
		return q.general.NewFrameReader(r)
	}
	return &lineReader{Closer: r, lines: bufio.NewReaderSize(r, 16<<10)}
}

// NewFrameWriter is used only by servers.
func (q quickEvents) NewFrameWriter(w io.Writer) io.Writer { return q.general.NewFrameWriter(w) }

// lineReader reads one line at a time and skips empty lines.
type lineReader struct {
	io.Closer
	lines *bufio.Reader
	// long is a line that is longer than the buffer of lines.
	long []byte
	// rest is the part of a line that the caller has not read yet.
	rest []byte
}

func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		l.rest = bytes.TrimSpace(line)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	if len(l.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// next returns a complete line. The last line of a stream may lack its line end.
func (l *lineReader) next() ([]byte, error) {
	part, err := l.lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		for l.long = l.long[:0]; errors.Is(err, bufio.ErrBufferFull); {
			l.long = append(l.long, part...)
			part, err = l.lines.ReadSlice('\n')
		}
		l.long = append(l.long, part...)
		part = l.long
	}
	switch {
	case err == nil || errors.Is(err, io.EOF) && json.Valid(part):
		return part, nil
	case errors.Is(err, io.EOF) && len(bytes.TrimSpace(part)) > 0:
		return nil, io.ErrUnexpectedEOF
	default:
		return nil, err
	}
}

// eventReader reads one event.
type eventReader struct {
	runtime.Serializer
	odd *atomic.Bool
}

// Decode sets the raw object of the event. The caller decodes it.
func (e eventReader) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, wanted := into.(*metav1.WatchEvent)
	if !wanted || e.odd.Load() {
		return e.Serializer.Decode(data, defaults, into)
	}
	kind, object, ok := takeApart(data)
	if !ok {
		e.odd.Store(true)
		return e.Serializer.Decode(data, defaults, into)
	}
	event.Type, event.Object.Raw = kind, object // decoded before the next event is read into the same buffer
	return event, &schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, nil
}

// takeApart returns the two fields of an event, if it is written like the API server's. It does not check whether the
// object is well-formed; the decoder does.
func takeApart(data []byte) (kind string, object []byte, ok bool) {
	const begins, between, ends = `{"type":"`, `","object":`, `}`
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte(begins))
	if !ok {
		return "", nil, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(between))
	if !ok || bytes.ContainsAny(name, `"\`) {
		return "", nil, false
	}
	object, ok = bytes.CutSuffix(rest, []byte(ends))
	ok = ok && bytes.HasPrefix(object, []byte("{")) && bytes.HasSuffix(object, []byte("}"))
	return string(name), object, ok
}
