package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// seen is one event of a watch.
type seen struct {
	Type   watch.EventType
	Object runtime.Object
}

// watching reads a stream to its end, like a client with these media types.
func watching(t testing.TB, media runtime.NegotiatedSerializer, stream io.Reader) (events []seen, failed bool) {
	t.Helper()
	info, there := runtime.SerializerInfoForMediaType(media.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !there {
		t.Fatal("nothing reads JSON")
	}
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(stream))
	decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), media.DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion))
	defer decoder.Close()
	for {
		kind, object, err := decoder.Decode()
		if err != nil {
			return events, !errors.Is(err, io.EOF)
		}
		events = append(events, seen{kind, object})
	}
}

func bothWays(t testing.TB) (quick quickJSON, general runtime.NegotiatedSerializer) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return newQuickJSON(scheme, nil), serializer.NewCodecFactory(scheme).WithoutConversion()
}

func event(kind string, object []byte) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

// Whatever a server writes, a fast watch returns the same events as a general one, or ends. After that end, the
// general serializer is used.
func TestQuickEvents(t *testing.T) {
	cluster := sampleCluster(t)
	long := func(length int) []byte {
		return bytes.Replace(cluster, []byte(`"clientID":"id"`), []byte(`"clientID":"`+strings.Repeat("x", length)+`"`), 1)
	}
	bookmark := []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","metadata":{"resourceVersion":"9"}}`)
	gone := []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`)
	tests := map[string]struct {
		stream string
		// odd means that API servers do not write this.
		odd bool
		// ends means that the fast watch ends although the general one can continue.
		ends bool
	}{
		"events":                        {stream: event("ADDED", cluster) + event("MODIFIED", cluster) + event("DELETED", cluster)},
		"a bookmark":                    {stream: event("BOOKMARK", bookmark)},
		"an error":                      {stream: event("ERROR", gone), odd: false},
		"an event longer than buffers":  {stream: event("ADDED", long(20_000)) + event("ADDED", cluster)},
		"events as long as they may be": {stream: event("ADDED", long(3<<20)) + event("ADDED", long(200_000)) + event("ADDED", cluster)},
		"an event that is too long":     {stream: event("ADDED", cluster) + event("ADDED", long(17<<20)) + event("ADDED", cluster)},
		"empty lines":                   {stream: "\n" + event("ADDED", cluster) + "\n \n" + event("ADDED", cluster)},
		"lines that end as on Windows":  {stream: strings.ReplaceAll(event("ADDED", cluster), "\n", "\r\n")},
		"no events":                     {},
		"the last line cut off":         {stream: event("ADDED", cluster) + event("ADDED", cluster)[:100]},
		"cut off before the line ends":  {stream: strings.TrimSuffix(event("ADDED", cluster), "\n")},
		"a kind nobody knows":           {stream: event("RENAMED", cluster) + event("ADDED", cluster)},
		"an object nobody knows":        {stream: event("ADDED", []byte(`{"apiVersion":"v7","kind":"None"}`)), odd: true},
		"spaces":                        {stream: strings.ReplaceAll(event("ADDED", cluster), `":`, `": `), odd: true},
		"the object first":              {stream: `{"object":` + string(cluster) + `,"type":"ADDED"}` + "\n", odd: true},
		"a field more":                  {stream: `{"type":"ADDED","note":1,"object":` + string(cluster) + "}\n", odd: true},
		"a kind with an escape":         {stream: strings.Replace(event("ADDED", cluster), "ADDED", `\u0041DDED`, 1), odd: true},
		"no object":                     {stream: `{"type":"ADDED"}` + "\n", odd: true},
		"a list instead of an object":   {stream: event("ADDED", []byte("[]")), odd: true},
		"no JSON":                       {stream: "<html>\n</html>\n", odd: true},
		"two events in a line":          {stream: strings.TrimSuffix(event("ADDED", cluster), "\n") + event("MODIFIED", cluster), odd: true, ends: true},
		"an event in two lines":         {stream: strings.Replace(event("ADDED", cluster), `"status"`, "\n"+`"status"`, 1), odd: true, ends: true},
		"two lines, cut at an object":   {stream: strings.Replace(event("ADDED", cluster), `},"status"`, "}\n"+`,"status"`, 1), odd: true, ends: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			quick, general := bothWays(t)
			want, wantFailed := watching(t, general, strings.NewReader(test.stream))
			got, failed := watching(t, quick, iotest.HalfReader(strings.NewReader(test.stream)))
			if quick.odd.Load() != test.odd {
				t.Errorf("odd %v, want %v", quick.odd.Load(), test.odd)
			}
			if test.ends {
				if !failed || len(got) > len(want) {
					t.Errorf("%d events, failed %v; it cannot be read quickly", len(got), failed)
				}
			} else if diff := cmp.Diff(want, got); diff != "" || failed != wantFailed {
				t.Errorf("failed %v, the general way %v; events (-general +quick):\n%s", failed, wantFailed, diff)
			}
			if !test.odd {
				return
			}
			again, failed := watching(t, quick, strings.NewReader(test.stream))
			if diff := cmp.Diff(want, again); diff != "" || failed != wantFailed {
				t.Errorf("the next watch: failed %v, the general way %v; events (-general +quick):\n%s", failed, wantFailed, diff)
			}
		})
	}
}

// The buffer of a frame reader may have any size.
func TestLinesInPieces(t *testing.T) {
	for size := 1; size < 12; size++ {
		lines := quickEvents{odd: &atomic.Bool{}}.NewFrameReader(io.NopCloser(strings.NewReader("one\n\ntwo two\nthree\n")))
		var got []string
		line, buffer := "", make([]byte, size)
		for {
			n, err := lines.Read(buffer)
			line += string(buffer[:n])
			if errors.Is(err, io.ErrShortBuffer) {
				if n == 0 {
					t.Fatal("nothing was read into a buffer that is not empty")
				}
				continue
			}
			if err != nil {
				break
			}
			got, line = append(got, strings.TrimSpace(line)), ""
		}
		if diff := cmp.Diff([]string{"one", "two two", "three"}, got); diff != "" || line != "" {
			t.Errorf("buffer of %d, rest %q (-want +got):\n%s", size, line, diff)
		}
	}
}

func FuzzTakeApart(f *testing.F) {
	f.Add([]byte(event("ADDED", sampleCluster(f))))
	f.Add([]byte(`{"type":"A","object":{}}`))
	f.Add([]byte(`{"type":"A","object":{"a":"}}`))
	_, general := bothWays(f)
	info, _ := runtime.SerializerInfoForMediaType(general.SupportedMediaTypes(), runtime.ContentTypeJSON)
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, object, ok := takeApart(data)
		if !ok || !json.Valid(object) {
			return // reported by the decoder of the object
		}
		var want metav1.WatchEvent
		if _, _, err := info.StreamSerializer.Decode(data, nil, &want); err != nil {
			t.Fatalf("%q %s, the general way: %v", kind, object, err)
		}
		if kind != want.Type || !bytes.Equal(object, want.Object.Raw) {
			t.Errorf("%q %s, the general way %q %s", kind, object, want.Type, want.Object.Raw)
		}
	})
}

func BenchmarkQuickEvents(b *testing.B) {
	stream := strings.Repeat(event("MODIFIED", sampleCluster(b)), 1000)
	quick, general := bothWays(b)
	for name, media := range map[string]runtime.NegotiatedSerializer{"quick": quick, "general": general} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if events, failed := watching(b, media, strings.NewReader(stream)); len(events) != 1000 || failed {
					b.Fatal(len(events), failed)
				}
			}
		})
	}
}
