package app

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// quickEvents takes the events of a watch apart without reading them through. The general way reads each three times
// before its object is decoded: for where it ends, for what it is, and for its two fields. But an API server writes
// each into a line of its own:
//
//	{"type":"MODIFIED","object":{…}}
//
// After anything else, watches are read in the general way: the first one may end with an error, as watches do, and
// begins anew.
type quickEvents struct {
	general *runtime.StreamSerializerInfo
	// odd is set for good once a server has written something else.
	odd *atomic.Bool
}

func (q quickEvents) info() *runtime.StreamSerializerInfo {
	out := *q.general
	out.Framer, out.Serializer = q, eventReader{Serializer: q.general.Serializer, odd: q.odd}
	return &out
}

// NewFrameReader tells events apart. Its Read is that of a frame reader: a buffer that is too small gets the beginning,
// and io.ErrShortBuffer.
func (q quickEvents) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	if q.odd.Load() {
		return q.general.NewFrameReader(r)
	}
	return &lineReader{Closer: r, lines: bufio.NewReader(r)}
}

// NewFrameWriter is for servers.
func (q quickEvents) NewFrameWriter(w io.Writer) io.Writer { return q.general.NewFrameWriter(w) }

// lineReader reads a line at a time, empty ones left out.
type lineReader struct {
	io.Closer
	lines *bufio.Reader
	// begun says that some of the line has been read, and more of it follows.
	begun bool
	// rest is what did not fit into the caller's buffer, and is part of the reader's; end says that the line ends with it.
	rest []byte
	end  bool
}

func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if err := l.more(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	l.begun = !l.end || len(l.rest) > 0
	if l.begun {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// more reads on: the rest of the line, or as much as the reader holds.
func (l *lineReader) more() error {
	for {
		part, err := l.lines.ReadSlice('\n')
		whole := !errors.Is(err, bufio.ErrBufferFull)
		if err != nil && whole && len(part) == 0 && !l.begun {
			return err // io.EOF where the stream ends between two events
		}
		if err != nil && whole {
			return io.ErrUnexpectedEOF
		}
		if len(bytes.TrimSpace(part)) == 0 && !l.begun {
			continue
		}
		l.rest, l.end = part, whole
		return nil
	}
}

// eventReader reads one event.
type eventReader struct {
	runtime.Serializer
	odd *atomic.Bool
}

// Decode gives what it decodes the object as it was sent, and leaves it to others to look into.
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

// takeApart finds the two fields of an event, if it is written as API servers do. Whether the object is well-formed is
// found by whoever decodes it.
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
