package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// bench is a running recorder with its API server. Use it in a synctest bubble.
type bench struct {
	*Recorder
	server *fake.Clientset
	// fail is the error of each create, lost that of each patch. slow is how long a create takes.
	fail, lost error
	slow       time.Duration
	created    []*corev1.Event
	written    []string
	counts     map[string]int
	end        context.CancelFunc
}

func newBench(t *testing.T) *bench {
	b := &bench{server: fake.NewClientset(), counts: map[string]int{}}
	b.server.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event := action.(clienttesting.CreateAction).GetObject().(*corev1.Event) //nolint:forcetypeassert // the reactor is for these
		<-time.After(b.slow)
		if event.ResourceVersion != "" {
			t.Error("created with a resourceVersion")
		}
		if b.fail != nil {
			return true, nil, b.fail
		}
		b.created = append(b.created, event)
		b.written = append(b.written, fmt.Sprintf("create %s %s %s x%d", event.InvolvedObject.Name, event.Reason, event.Message, event.Count))
		stored := event.DeepCopy()
		stored.ResourceVersion = "1"
		return true, stored, nil
	})
	b.server.PrependReactor("patch", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if b.lost != nil {
			return true, nil, b.lost
		}
		stored := b.created[len(b.created)-1].DeepCopy()
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), stored); err != nil { //nolint:forcetypeassert // as above
			return true, nil, err
		}
		b.written = append(b.written, fmt.Sprintf("patch x%d", stored.Count))
		return true, stored, nil
	})
	b.Recorder = New(Options{
		Scheme: clientscheme.Scheme, Component: "fleet-controller", Log: slog.New(slog.DiscardHandler),
		Count: func(outcome string) { b.counts[outcome]++ },
	})
	ctx, end := context.WithCancel(t.Context())
	b.end = end
	b.Run(ctx, b.server)
	return b
}

// close ends the recorder, so that the bubble can end.
func (b *bench) close() {
	b.end()
	b.Wait()
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("u-" + name)}}
}

// numbered returns a text for each number.
func numbered(from, to int, format string) (texts []string) {
	for i := from; i <= to; i++ {
		texts = append(texts, fmt.Sprintf(format, i))
	}
	return texts
}

func TestEvents_AreWrittenOrMerged(t *testing.T) {
	const warning, normal = corev1.EventTypeWarning, corev1.EventTypeNormal
	// differing records 25 Events with differing reasons.
	differing := func(b *bench) {
		for i := range 25 {
			b.Event(pod("a"), warning, fmt.Sprintf("Bad%d", i+1), "bad")
		}
	}
	tests := map[string]struct {
		record func(*bench)
		want   []string
		counts map[string]int
	}{
		"an Event is written": {
			record: func(b *bench) { b.Event(pod("a"), warning, "Bad", "very bad") },
			want:   []string{"create a Bad very bad x1"},
			counts: map[string]int{Written: 1},
		},
		"a message may be formatted": {
			record: func(b *bench) { b.Eventf(pod("a"), normal, "Deployed", "deployed after %s", 2*time.Second) },
			want:   []string{"create a Deployed deployed after 2s x1"},
			counts: map[string]int{Written: 1},
		},
		"a percent sign in a message that is not formatted stays": {
			record: func(b *bench) { b.Event(pod("a"), normal, "Full", "100%d full") },
			want:   []string{"create a Full 100%d full x1"},
			counts: map[string]int{Written: 1},
		},
		"the same again is counted": {
			record: func(b *bench) {
				for range 3 {
					b.Event(pod("a"), warning, "Bad", "very bad")
				}
			},
			want:   []string{"create a Bad very bad x1", "patch x2", "patch x3"},
			counts: map[string]int{Written: 3},
		},
		"the same again is created if the Event was deleted": {
			record: func(b *bench) {
				b.lost = apierrors.NewNotFound(corev1.Resource("events"), "a")
				b.Event(pod("a"), warning, "Bad", "very bad")
				b.Event(pod("a"), warning, "Bad", "very bad")
			},
			want:   []string{"create a Bad very bad x1", "create a Bad very bad x2"},
			counts: map[string]int{Written: 2},
		},
		"more than ten of an object: limited": {
			record: differing, want: numbered(1, 10, "create a Bad%d bad x1"), counts: map[string]int{Written: 10, Limited: 15},
		},
		"the limit of an object does not affect others": {
			record: func(b *bench) {
				differing(b)
				b.Event(pod("b"), warning, "Bad", "bad")
				next := pod("a")
				next.UID = "another"
				b.Event(next, warning, "Bad", "bad")
			},
			want:   append(numbered(1, 10, "create a Bad%d bad x1"), "create b Bad bad x1", "create a Bad bad x1"),
			counts: map[string]int{Written: 12, Limited: 15},
		},
		"an object has one more every five minutes": {
			record: func(b *bench) {
				differing(b)
				synctest.Wait()
				<-time.After(10*time.Minute + time.Second)
				for i := range 3 {
					b.Event(pod("a"), warning, fmt.Sprintf("Later%d", i+1), "bad")
				}
			},
			want:   append(numbered(1, 10, "create a Bad%d bad x1"), numbered(1, 2, "create a Later%d bad x1")...),
			counts: map[string]int{Written: 12, Limited: 16},
		},
		"many with one reason are combined": {
			record: func(b *bench) {
				for i := range 7 {
					b.Eventf(pod("a"), warning, "Slow", "after %d s", i+1)
				}
			},
			want: append(numbered(1, 4, "create a Slow after %d s x1"),
				"create a Slow (combined from similar events): after 5 s x1", "patch x2", "patch x3"),
			counts: map[string]int{Written: 7},
		},
		"an Event that the API server refuses is dropped": {
			record: func(b *bench) { b.fail = errors.New("no"); b.Event(pod("a"), warning, "Bad", "bad") },
			counts: map[string]int{Failed: 1},
		},
		"a secret is removed": {
			record: func(b *bench) { b.Event(pod("a"), warning, "Bad", "GET https://me:pass@host: Bearer abcdefgh.123") },
			want:   []string{"create a Bad GET https[redacted]host: [redacted] x1"},
			counts: map[string]int{Written: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.close()
				test.record(b)
				synctest.Wait()
				if diff := cmp.Diff(test.want, b.written); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.counts, b.counts); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEvent_NamesObjectAndComponent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.AnnotatedEventf(pod("a"), map[string]string{"k": "v"}, corev1.EventTypeWarning, "Bad", "%s bad", "very")
		synctest.Wait()
		at := metav1.NewTime(time.Now())
		want := []*corev1.Event{{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("a.%x", at.UnixNano()), Annotations: map[string]string{"k": "v"}},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "a", UID: "u-a"},
			Reason:         "Bad", Message: "very bad", Type: "Warning", Count: 1, FirstTimestamp: at, LastTimestamp: at,
			Source: corev1.EventSource{Component: "fleet-controller"}, ReportingController: "fleet-controller",
		}}
		if diff := cmp.Diff(want, b.created); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestManyObjects_ShareALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 500 {
			b.Event(pod(fmt.Sprint(i)), corev1.EventTypeWarning, "Bad", "bad")
		}
		var seen []int
		for range 3 {
			synctest.Wait()
			seen = append(seen, b.counts[Written])
			<-time.After(10 * time.Second)
		}
		if diff := cmp.Diff([]int{allBurst, allBurst + 10*allPerSecond, allBurst + 20*allPerSecond}, seen); diff != "" {
			t.Errorf("written at once, after ten seconds, after twenty (-want +got):\n%s", diff)
		}
		b.close()
	})
}

func TestEventsOfOneNamespace_LeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		r := New(b.options)
		for i := range queueLength {
			r.Event(pod(fmt.Sprint(i)), corev1.EventTypeWarning, "Bad", "bad")
		}
		other := pod("other")
		other.Namespace = "other"
		r.Event(other, corev1.EventTypeWarning, "Bad", "bad")
		ctx, end := context.WithCancel(t.Context())
		r.Run(ctx, b.server)
		<-time.After(time.Hour)
		r.Event(pod("later"), corev1.EventTypeWarning, "Bad", "bad")
		synctest.Wait()
		end()
		r.Wait()
		if diff := cmp.Diff(map[string]int{Written: perNamespace + 2, Limited: queueLength - perNamespace}, b.counts); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"create other Bad bad x1", "create later Bad bad x1"}, b.written[len(b.written)-2:]); diff != "" {
			t.Errorf("written last (-want +got):\n%s", diff)
		}
		if len(r.queued.of) > 0 {
			t.Errorf("%v are still counted", r.queued.of)
		}
	})
}

func TestEventsThatCannotBeMade_TakeNoPlaceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range queueLength {
			b.Event(nil, corev1.EventTypeWarning, "Bad", "has no object")
			b.Event(pod("a"), "Surprise", "Bad", "has no such type")
		}
		b.Event(pod("a"), corev1.EventTypeWarning, "Bad", "bad")
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{Written: 1, Failed: 2 * queueLength}, b.counts); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		b.close()
	})
}

func TestEventsBeforeTheEnd_AreWritten(t *testing.T) {
	tests := map[string]struct {
		slow time.Duration // what one request takes
		want int
	}{
		"fast API server: all":                                {0, 50},
		"slow API server: as many as possible in two seconds": {time.Second / 2, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.slow = test.slow
				for i := range 50 {
					b.Event(pod(fmt.Sprint(i)), corev1.EventTypeWarning, "Bad", "bad")
				}
				begun := time.Now()
				b.close()
				synctest.Wait()
				if len(b.written) < test.want || len(b.written) > test.want+1 {
					t.Errorf("%d written, want %d", len(b.written), test.want)
				}
				if took := time.Since(begun); took > flushTimeout {
					t.Errorf("it took %s", took)
				}
				<-time.After(time.Minute) // until the last request ends
			})
		})
	}
}

func TestScrub(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
	tests := map[string]struct{ in, want string }{
		"plain text: unchanged":                        {"the API server does not answer: check its address", "the API server does not answer: check its address"},
		"token: redacted":                              {"token " + jwt + " refused", "token [redacted] refused"},
		"token without a signature: redacted":          {"eyJhbGciOiJub25l.eyJzdWIiOiJ4", "[redacted]"},
		"any bearer token: redacted":                   {"Authorization: bearer abc123DEF~x==", "Authorization: [redacted]"},
		"private key: redacted":                        {"key:\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nend", "key:\n[redacted]\nend"},
		"truncated private key: redacted":              {"-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]"},
		"certificate: unchanged":                       {"-----BEGIN CERTIFICATE-----\nMIIE", "-----BEGIN CERTIFICATE-----\nMIIE"},
		"password in a URL: redacted":                  {"GET https://me:secret@host/path", "GET https[redacted]host/path"},
		"URL with a port: unchanged":                   {"https://host:6443/path@x", "https://host:6443/path@x"},
		"invalid UTF-8: replaced":                      {"a\xffb", "a�b"},
		"word like the start of a token: unchanged":    {"eyJ is how they begin", "eyJ is how they begin"},
		"word bearer without a token: unchanged":       {"the bearer of news", "the bearer of news"},
		"certificate error with an account: unchanged": {"x509: unknown authority (system:serviceaccount:ns:name)", "x509: unknown authority (system:serviceaccount:ns:name)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := scrub(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLongMessage_IsCutAtACharacterBoundary(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("ü", 5000), "x" + strings.Repeat("ü", 5000)} {
		got := scrub(text)
		if len(got) > messageLimit || len(got) < messageLimit-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
		}
	}
	if exact := strings.Repeat("x", messageLimit); scrub(exact) != exact {
		t.Error("a message of exactly the limit is cut")
	}
}
