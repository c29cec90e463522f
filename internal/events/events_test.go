package events

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// server remembers what was written, as "create <object> <reason> <message> x<count>".
type server struct {
	written []string
	fail    error // of each request, but
	lost    bool  // an Event that is to be patched is not there
	slow    func(context.Context)
}

func (s *server) note(ctx context.Context, verb string, event *corev1.Event) (*corev1.Event, error) {
	if s.slow != nil {
		s.slow(ctx)
	}
	if s.fail != nil {
		return nil, s.fail
	}
	s.written = append(s.written, fmt.Sprintf("%s %s/%s %s %s x%d", verb, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message, event.Count))
	return event, nil
}

func (s *server) Create(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	if event.ResourceVersion != "" {
		return nil, errors.New("created with a resourceVersion")
	}
	return s.note(ctx, "create", event)
}

func (s *server) Patch(ctx context.Context, event *corev1.Event, patch []byte) (*corev1.Event, error) {
	if s.lost {
		return nil, apierrors.NewNotFound(corev1.Resource("events"), event.Name)
	}
	if !strings.Contains(string(patch), fmt.Sprintf(`"count":%d`, event.Count)) {
		return nil, fmt.Errorf("patch %s does not count", patch)
	}
	return s.note(ctx, "patch", event)
}

// unlimited lets everything pass at once.
type unlimited struct{}

func (unlimited) Wait(context.Context) error { return nil }

// bench is a recorder whose clock and server are at hand. What is told is written by pass.
type bench struct {
	*Recorder
	*server
	clock  *clocktesting.FakePassiveClock
	counts map[string]int
}

func newBench() *bench {
	b := &bench{server: &server{}, clock: clocktesting.NewFakePassiveClock(noon), counts: map[string]int{}}
	b.Recorder = New(Options{
		Scheme: clientscheme.Scheme, Component: "fleet-controller", Clock: b.clock, Count: func(outcome string) { b.counts[outcome]++ },
	})
	b.all = unlimited{}
	return b
}

// pass writes what was told.
func (b *bench) pass(ctx context.Context) {
	for len(b.queue) > 0 {
		b.write(ctx, b.server, <-b.queue)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("u-" + name)}}
}

func TestEvents_AreWrittenOrMerged(t *testing.T) {
	const warning, normal = corev1.EventTypeWarning, corev1.EventTypeNormal
	numbered := func(prefix string, from, to int, format string) (want []string) {
		for i := from; i <= to; i++ {
			want = append(want, prefix+fmt.Sprintf(format, i))
		}
		return want
	}
	tests := map[string]struct {
		tell   func(*bench)
		want   []string
		counts map[string]int
	}{
		"one is written": {
			tell:   func(b *bench) { b.Event(pod("a"), warning, "Bad", "very bad") },
			want:   []string{"create Pod/a Bad very bad x1"},
			counts: map[string]int{Written: 1},
		},
		"a message may be put together": {
			tell:   func(b *bench) { b.Eventf(pod("a"), normal, "Deployed", "deployed after %s", 2*time.Second) },
			want:   []string{"create Pod/a Deployed deployed after 2s x1"},
			counts: map[string]int{Written: 1},
		},
		"a percent sign in one that is not stays": {
			tell:   func(b *bench) { b.Event(pod("a"), normal, "Full", "100%d full") },
			want:   []string{"create Pod/a Full 100%d full x1"},
			counts: map[string]int{Written: 1},
		},
		"the same again is counted up": {
			tell: func(b *bench) {
				for range 3 {
					b.Event(pod("a"), warning, "Bad", "very bad")
				}
			},
			want:   []string{"create Pod/a Bad very bad x1", "patch Pod/a Bad very bad x2", "patch Pod/a Bad very bad x3"},
			counts: map[string]int{Written: 3},
		},
		"and made anew if it is gone": {
			tell: func(b *bench) {
				b.lost = true
				b.Event(pod("a"), warning, "Bad", "very bad")
				b.Event(pod("a"), warning, "Bad", "very bad")
			},
			want:   []string{"create Pod/a Bad very bad x1", "create Pod/a Bad very bad x2"},
			counts: map[string]int{Written: 2},
		},
		"an object has ten": {
			tell: func(b *bench) {
				for i := range 25 {
					b.Event(pod("a"), warning, fmt.Sprintf("Bad%d", i+1), "bad")
				}
			},
			want:   numbered("create Pod/a Bad", 1, 10, "%d bad x1"),
			counts: map[string]int{Written: 10, Limited: 15},
		},
		"which takes none from another, nor from the next of its name": {
			tell: func(b *bench) {
				for i := range 25 {
					b.Event(pod("a"), warning, fmt.Sprintf("Bad%d", i+1), "bad")
				}
				b.Event(pod("b"), warning, "Bad", "bad")
				next := pod("a")
				next.UID = "another"
				b.Event(next, warning, "Bad", "bad")
			},
			want:   append(numbered("create Pod/a Bad", 1, 10, "%d bad x1"), "create Pod/b Bad bad x1", "create Pod/a Bad bad x1"),
			counts: map[string]int{Written: 12, Limited: 15},
		},
		"and one more every five minutes": {
			tell: func(b *bench) {
				for i := range 25 {
					b.Event(pod("a"), warning, fmt.Sprintf("Bad%d", i+1), "bad")
				}
				b.pass(context.Background())
				b.written = nil
				b.clock.SetTime(noon.Add(10*time.Minute + time.Second))
				for i := range 3 {
					b.Event(pod("a"), warning, fmt.Sprintf("Later%d", i+1), "bad")
				}
			},
			want:   numbered("create Pod/a Later", 1, 2, "%d bad x1"),
			counts: map[string]int{Written: 12, Limited: 16},
		},
		"many of one reason are told as one": {
			tell: func(b *bench) {
				for i := range 7 {
					b.Eventf(pod("a"), warning, "Slow", "after %d s", i+1)
				}
			},
			want: append(numbered("create Pod/a Slow after ", 1, 4, "%d s x1"),
				"create Pod/a Slow (combined from similar events): after 5 s x1",
				"patch Pod/a Slow (combined from similar events): after 6 s x2",
				"patch Pod/a Slow (combined from similar events): after 7 s x3"),
			counts: map[string]int{Written: 7},
		},
		"one that cannot be written is given up": {
			tell:   func(b *bench) { b.fail = errors.New("no"); b.Event(pod("a"), warning, "Bad", "bad") },
			counts: map[string]int{Failed: 1},
		},
		"one of an object that nobody knows, too": {
			tell:   func(b *bench) { b.Event(&runtime.Unknown{}, warning, "Bad", "bad") },
			counts: map[string]int{Failed: 1},
		},
		"a full queue blocks nobody": {
			tell: func(b *bench) {
				for range queueLength + 3 {
					b.Event(pod("a"), warning, "Bad", "bad")
				}
				for len(b.queue) > 0 {
					<-b.queue
				}
			},
			counts: map[string]int{Limited: 3},
		},
		"a secret is cut out": {
			tell:   func(b *bench) { b.Event(pod("a"), warning, "Bad", "GET https://me:pass@host: Bearer abcdefgh.123") },
			want:   []string{"create Pod/a Bad GET https[redacted]host: [redacted] x1"},
			counts: map[string]int{Written: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			test.tell(b)
			b.pass(t.Context())
			if diff := cmp.Diff(test.want, b.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.counts, b.counts); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheWholeEvent(t *testing.T) {
	b := newBench()
	b.AnnotatedEventf(pod("a"), map[string]string{"k": "v"}, corev1.EventTypeWarning, "Bad", "%s bad", "very")
	b.Event(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 253)}}, corev1.EventTypeNormal, "Good", "good")
	at := metav1.NewTime(noon)
	want := []*corev1.Event{
		{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "ns", Name: "a.1886999c36a18000", Annotations: map[string]string{"k": "v"}},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "a", UID: "u-a"},
			Reason:         "Bad", Message: "very bad", Type: "Warning", Count: 1, FirstTimestamp: at, LastTimestamp: at,
			Source: corev1.EventSource{Component: "fleet-controller"}, ReportingController: "fleet-controller",
		},
		{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: strings.Repeat("n", 200) + ".1886999c36a18000"},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: strings.Repeat("n", 253)},
			Reason:         "Good", Message: "good", Type: "Normal", Count: 1, FirstTimestamp: at, LastTimestamp: at,
			Source: corev1.EventSource{Component: "fleet-controller"}, ReportingController: "fleet-controller",
		},
	}
	if diff := cmp.Diff(want, []*corev1.Event{<-b.queue, <-b.queue}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllObjectsTogetherAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		b := newBench()
		r := New(Options{Scheme: clientscheme.Scheme, Count: func(string) { written.Add(1) }})
		ctx, end := context.WithCancel(t.Context())
		r.Run(ctx, b.server)
		for i := range 500 {
			r.Event(pod(fmt.Sprint(i)), corev1.EventTypeWarning, "Bad", "bad")
		}
		var seen []int64
		for range 3 {
			synctest.Wait()
			seen = append(seen, written.Load())
			<-time.After(10 * time.Second)
		}
		if diff := cmp.Diff([]int64{allBurst, allBurst + 10*allPerSecond, allBurst + 20*allPerSecond}, seen); diff != "" {
			t.Errorf("written at once, after ten seconds, after twenty (-want +got):\n%s", diff)
		}
		end()
		r.Wait()
	})
}

func TestEventsBeforeTheEnd_AreWritten(t *testing.T) {
	tests := map[string]struct {
		slow time.Duration // what one request takes
		told int
		want int
	}{
		"all of it":                           {0, 50, 50},
		"as much as two seconds are good for": {time.Second / 2, 50, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.slow = func(ctx context.Context) {
					select {
					case <-time.After(test.slow):
					case <-ctx.Done():
						t.Error("a request was broken off")
					}
				}
				for i := range test.told {
					b.Event(pod(fmt.Sprint(i)), corev1.EventTypeWarning, "Bad", "bad")
				}
				ended, end := context.WithCancel(t.Context())
				end()
				begun := time.Now()
				b.Run(ended, b.server)
				b.Run(ended, b.server) // again is nothing
				b.Wait()
				if len(b.written) < test.want || len(b.written) > test.want+1 {
					t.Errorf("%d written, want %d", len(b.written), test.want)
				}
				if took := time.Since(begun); took > flushTimeout+requestTimeout {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestToAnAPIServer(t *testing.T) {
	client := fake.NewClientset()
	b := newBench()
	b.Event(pod("a"), corev1.EventTypeWarning, "Bad", "bad")
	b.Event(pod("a"), corev1.EventTypeWarning, "Bad", "bad")
	for len(b.queue) > 0 {
		b.write(t.Context(), To(client), <-b.queue)
	}
	list, err := client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Count != 2 {
		t.Errorf("error %v, events %+v", err, list.Items)
	}
	var verbs []string
	for _, action := range client.Actions()[:2] {
		verbs = append(verbs, action.GetVerb())
	}
	if diff := cmp.Diff([]string{"create", "patch"}, verbs); diff != "" {
		t.Errorf("the rights it takes (-want +got):\n%s", diff)
	}
}
