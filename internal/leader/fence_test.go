package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// hands is a clock that a test sets.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hands) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// fenced is a leader with two leases of two seconds.
type fenced struct {
	*hands
	*Fence
	server *httptest.Server
	mu     sync.Mutex
	code   int // of the API server's answers
	asked  int
}

func newFenced(t *testing.T) *fenced {
	t.Helper()
	f := &fenced{hands: &hands{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}, code: http.StatusOK}
	f.Fence = NewFence(f.hands.clock)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked++
		w.WriteHeader(f.code)
	}))
	t.Cleanup(f.server.Close)
	return f
}

// ask sends one request through a configuration.
func (f *fenced) ask(t *testing.T, method string, cfg *rest.Config) error {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, f.server.URL, io.NopCloser(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// elect sends a request of the election for a lease, which the API server answers with a code.
func (f *fenced) elect(t *testing.T, method, lease string, code int) {
	t.Helper()
	f.mu.Lock()
	f.code = code
	f.mu.Unlock()
	if err := f.ask(t, method, f.watch(&rest.Config{}, lease, 2500*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.code = http.StatusOK
}

func TestFence(t *testing.T) {
	const put, get = http.MethodPut, http.MethodGet
	tests := map[string]struct {
		happens func(t *testing.T, f *fenced)
		writes  bool
	}{
		"no lease yet: writes pass": {func(*testing.T, *fenced) {}, true},
		"lease was just acquired": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
		}, true},
		"lease has not expired": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.pass(1999 * time.Millisecond)
		}, true},
		"lease has expired: it lasts whole seconds": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.pass(2 * time.Second)
		}, false},
		"created lease has expired": {func(t *testing.T, f *fenced) {
			f.elect(t, http.MethodPost, "first", 201)
			f.pass(2 * time.Second)
		}, false},
		"renewed lease has not expired": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.pass(1500 * time.Millisecond)
			f.elect(t, put, "first", 200)
			f.pass(1500 * time.Millisecond)
		}, true},
		"expired lease was renewed later": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.pass(time.Hour)
			f.elect(t, put, "first", 200)
		}, true},
		"renewal was refused": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.pass(1500 * time.Millisecond)
			f.elect(t, put, "first", 409)
			f.pass(1500 * time.Millisecond)
		}, false},
		"reading a lease does not renew it": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.pass(1500 * time.Millisecond)
			f.elect(t, get, "first", 200)
			f.pass(1500 * time.Millisecond)
		}, false},
		"one of two leases is not renewed": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.elect(t, put, "second", 200)
			f.pass(1500 * time.Millisecond)
			f.elect(t, put, "second", 200)
			f.pass(1500 * time.Millisecond)
		}, false},
		"both of two leases are renewed": {func(t *testing.T, f *fenced) {
			f.elect(t, put, "first", 200)
			f.elect(t, put, "second", 200)
			f.pass(time.Hour)
			f.elect(t, put, "first", 200)
			f.elect(t, put, "second", 200)
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFenced(t)
			test.happens(t, f)
			work := f.Guard(&rest.Config{})
			for _, method := range []string{http.MethodPost, put, http.MethodPatch, http.MethodDelete} {
				before := f.asked
				err := f.ask(t, method, work)
				if sent := f.asked > before; sent != test.writes || (err == nil) != test.writes || err != nil && !errors.Is(err, ErrLeaseLost) {
					t.Errorf("%s: %v, sent %v", method, err, sent)
				}
			}
			if err := f.ask(t, get, work); err != nil {
				t.Errorf("reading: %v", err)
			}
		})
	}
}

func TestFence_CountsFromSendingTheRenewal(t *testing.T) {
	f := newFenced(t)
	f.server.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f.pass(3 * time.Second) }) // it takes so long
	f.elect(t, http.MethodPut, "first", 200)
	if err := f.check(http.MethodPut); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("it is %v", err)
	}
}

func TestFence_DoesNotModifyTheGivenConfig(t *testing.T) {
	f, cfg := newFenced(t), &rest.Config{}
	f.Guard(cfg)
	f.watch(cfg, "first", time.Second)
	if cfg.WrapTransport != nil {
		t.Error("it is guarded, too")
	}
}

func TestFrozenLeader_DoesNotWriteAfterItsLeaseExpires(t *testing.T) {
	server := &leases{}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	clock := &hands{now: time.Now()}
	fence := NewFence(clock.clock)
	cfg := &rest.Config{Host: listening.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := kubernetes.NewForConfig(fence.Guard(cfg))
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context) error {
		return client.CoreV1().Secrets("ns").Delete(ctx, "s", metav1.DeleteOptions{})
	}
	err = Lead(t.Context(), Options{
		Config: cfg, Namespace: "ns", Name: "lease", Fence: fence,
		LeaseDuration: 3 * time.Hour, RenewDeadline: 2 * time.Hour, RetryPeriod: time.Hour, // so that nobody renews it meanwhile
	}, func(ctx context.Context) error {
		if err := write(ctx); errors.Is(err, ErrLeaseLost) {
			t.Errorf("in office: %v", err)
		}
		clock.pass(3 * time.Hour)
		return write(ctx)
	})
	if !errors.Is(err, ErrLeaseLost) || !strings.Contains(err.Error(), "because Lease lease was not renewed in time") {
		t.Errorf("after that: %v", err)
	}
}
