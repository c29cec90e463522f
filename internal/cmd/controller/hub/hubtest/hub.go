// Package hubtest provides an API server for a controller's tests. Objects on the server and in its caches are
// separate, every write is recorded, and each request can be made to fail. The caches are wrangler's own.
//
//	Put ─► server + caches ─► the controller's handler ─► Requests · Woken · Get
package hubtest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Patience bounds how long a test waits for what should take milliseconds.
const Patience = time.Minute

// Object is any object of the API.
type Object interface {
	runtime.Object
	metav1.Object
}

// Hub is an API server in memory, with the controllers' caches.
type Hub struct {
	// App is the Context that controllers register with. Its clocks are those of the Hub.
	App *hub.App
	// Events receives the Events for users.
	Events chan string

	t     testing.TB
	kinds []anyKind

	mu       sync.Mutex // guards the fields below
	now      time.Time
	stepped  time.Duration // how far Step has set the clock forward
	objects  map[string]Object
	cached   []cached
	written  []Object // since the last Follow
	versions uint64
	requests []string
	fail     map[string]error
	before   map[string]func()
	cap      time.Duration
	notYet   int
	rejects  func(token string) bool
	woken    []string
	changed  chan struct{} // closed and replaced when woken grows
}

// New returns an empty hub at noon, with the system namespace cattle-fleet-system.
func New(t testing.TB) *Hub {
	t.Helper()
	h := &Hub{
		t: t, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), objects: map[string]Object{}, versions: listed,
		fail: map[string]error{}, before: map[string]func(){}, changed: make(chan struct{}),
	}
	server := httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(server.Close)
	var err error
	h.App, err = hub.New(context.Background(), hub.Options{
		Own:     kube.Own{Config: &rest.Config{Host: server.URL}},
		Env:     env.Controller{Namespace: names.SystemNamespace, Agent: env.AgentSettings{Replicas: 1, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s"}},
		Version: "test",
		Log:     slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Clock:   h.Now, OwnClock: h.ownTime,
		Dial: func(context.Context, []byte, string, bool) (hub.Downstream, error) {
			return nil, foreign.ErrUnreachable
		},
	})
	if err != nil {
		t.Fatalf("preparing the controllers' context: %v", err)
	}
	h.Events = make(chan string, 100)
	recorder := record.NewFakeRecorder(0)
	recorder.Events = h.Events
	h.App.Recorder = recorder
	h.App.Kube = h.clientset()
	h.addKinds()
	h.addOwnKinds()
	t.Cleanup(h.expectUnchanged)
	return h
}

// serve answers requests that do not use the clients of the kinds: reading the configuration, which is the default,
// and checking whether the rights of a token are in force.
func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/bundledeployments") {
		http.NotFound(w, r)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.note("prove", strings.Split(r.URL.Path, "/")[5])
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case h.notYet > 0:
		h.notYet--
		http.Error(w, "forbidden", http.StatusForbidden)
	default:
		_, _ = w.Write([]byte("{}")) // a client that has disconnected needs no answer
	}
}

// RejectTokens makes the API server reject the tokens for which rejects returns true. A TokenReview is recorded
// as "review token".
func (h *Hub) RejectTokens(rejects func(token string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rejects = rejects
}

// Now returns the hub's time.
func (h *Hub) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// ownTime returns the time of the controllers' process, which Step does not change.
func (h *Hub) ownTime() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now.Add(-h.stepped)
}

// Step sets the clock of the API server forward, or back, while no time passes.
func (h *Hub) Step(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now, h.stepped = h.now.Add(d), h.stepped+d
}

// Pass advances the clocks.
func (h *Hub) Pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// Fail makes a request return an error from now on. Nil ends that. The request has the form of Requests.
func (h *Hub) Fail(request string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail[request] = err
}

// Before runs do once before the request is answered, to simulate a faster client.
func (h *Hub) Before(request string, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before[request] = do
}

// CapTokens limits the lifetime of the tokens that the API server issues.
func (h *Hub) CapTokens(most time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cap = most
}

// RefuseTokens makes the next new tokens invalid, this many times.
func (h *Hub) RefuseTokens(times int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notYet = times
}

// Requests returns the requests since the last call: "create Role ns/name", "update Cluster/status ns/name", "mint
// ns/account 10m0s", "prove ns".
func (h *Hub) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	requests := h.requests
	h.requests = nil
	return requests
}

// Woken returns the keys enqueued since the last call, with their delays: "Cluster ns/name in 2s".
func (h *Hub) Woken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	woken := h.woken
	h.woken = nil
	return woken
}

// AwaitWoken is Woken, but waits until there is a key, for work that runs beside a handler.
func (h *Hub) AwaitWoken() []string {
	h.t.Helper()
	patience := time.After(Patience)
	for {
		h.mu.Lock()
		changed, some := h.changed, len(h.woken) > 0
		h.mu.Unlock()
		if some {
			return h.Woken()
		}
		select {
		case <-changed:
		case <-patience:
			h.t.Fatalf("nobody was woken within %s", Patience)
		}
	}
}

func (h *Hub) wake(kind, namespace, name string, after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := kind + " " + keyOf(namespace, name)
	if after != 0 {
		line += " in " + after.String()
	}
	h.woken = append(h.woken, line)
	close(h.changed)
	h.changed = make(chan struct{})
}

// note records a request and returns the error set by Fail. The caller holds the lock.
func (h *Hub) note(verb, rest string) error {
	line := verb + " " + rest
	h.requests = append(h.requests, line)
	if do := h.before[line]; do != nil {
		delete(h.before, line)
		h.mu.Unlock()
		do()
		h.mu.Lock()
	}
	return h.fail[line]
}

func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return types.NamespacedName{Namespace: namespace, Name: name}.String()
}

// Told returns the Events since the last call.
func (h *Hub) Told() (events []string) {
	for {
		select {
		case event := <-h.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// secretKind returns the type of the Secrets in the cache that a Secret belongs to.
func secretKind(obj Object) (corev1.SecretType, bool) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return "", false
	}
	return secret.Type, true
}

func unexpected(request string) error { return fmt.Errorf("unexpected request: %s", request) }
