package faults_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// server is a fake API server with one ConfigMap. It records its requests.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	auth  string
	proto string
}

// newServer starts a server with TLS and HTTP/2, as API servers use.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

const (
	oneConfigMap = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ws","name":"one","resourceVersion":"7"}}`
	onePath      = "/api/v1/namespaces/ws/configmaps"
)

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, faults.Read(r).String())
	s.auth, s.proto = r.Header.Get("Authorization"), r.Proto
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if faults.Read(r).Verb != "watch" {
		_, _ = io.WriteString(w, oneConfigMap)
		return
	}
	_, _ = io.WriteString(w, `{"type":"ADDED","object":`+oneConfigMap+"}\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done() // until the client ends the watch
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// client returns a client that sends its requests through a plan. Retries of client-go are off, because each
// would count as a request.
func client(t *testing.T, s *server, plan *faults.Plan) kubernetes.Interface {
	t.Helper()
	cfg := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	cfg.Wrap(plan.Transport)
	made, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func get(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().ConfigMaps("ws").Get(ctx, "one", metav1.GetOptions{})
	return err
}

func create(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().ConfigMaps("ws").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	return err
}

func TestFault_AffectsOneRequest(t *testing.T) {
	const arrived = "create configmaps in ws"
	tests := map[string]struct {
		fault  faults.Fault
		is     func(error) bool
		server []string // the requests that reached it
	}{
		"401": {faults.Answer(401), apierrors.IsUnauthorized, nil},
		"403": {faults.Answer(403), apierrors.IsForbidden, nil},
		"404": {faults.Answer(404), apierrors.IsNotFound, nil},
		"409": {faults.Answer(409), apierrors.IsConflict, nil},
		"410": {faults.Answer(410), apierrors.IsResourceExpired, nil},
		"422": {faults.Answer(422), apierrors.IsInvalid, nil},
		"500": {faults.Answer(500), apierrors.IsInternalError, nil},
		"504": {faults.Answer(504), apierrors.IsTimeout, nil},
		"untrusted certificate: request fails": {faults.Untrusted(), func(err error) bool {
			return errors.Is(foreign.Classify(err), foreign.ErrUntrusted)
		}, nil},
		"connection lost before the request: server gets nothing": {faults.LostBefore(), func(err error) bool {
			return errors.Is(err, syscall.ECONNRESET) && errors.Is(foreign.Classify(err), foreign.ErrUnreachable)
		}, nil},
		"connection lost after the request: server gets it": {faults.LostAfter(), func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }, []string{arrived}},
		"slow request: server gets it":                      {faults.Slow(time.Millisecond), func(err error) bool { return err == nil }, []string{arrived}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, plan := newServer(t), &faults.Plan{}
			active := plan.On("create", "configmaps", test.fault)
			if err := create(t.Context(), client(t, s, plan)); !test.is(err) {
				t.Errorf("got error %v", err)
			}
			if diff := cmp.Diff(test.server, s.seen()); diff != "" {
				t.Errorf("requests at the server (-want +got):\n%s", diff)
			}
			if active.Met() != 1 {
				t.Errorf("%d requests met the fault", active.Met())
			}
			active.End()
			if err := create(t.Context(), client(t, s, plan)); err != nil {
				t.Errorf("after the end of the fault: %v", err)
			}
		})
	}
}

func TestTooManyRequests_HasRetryAfter(t *testing.T) {
	s, plan := newServer(t), &faults.Plan{}
	plan.Add(faults.Rule{Fault: faults.Answer(429), Times: 1})
	if err := get(t.Context(), client(t, s, plan)); err != nil { // client-go retries after the given time
		t.Error(err)
	}
	plan.On("", "", faults.Answer(429))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := plan.Transport(http.DefaultTransport).RoundTrip(request)
	if err != nil || answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("%+v, %v", answer, err)
	}
	_ = answer.Body.Close()
}

func TestSilent_EndsWhenTheClientCancels(t *testing.T) {
	s, plan := newServer(t), &faults.Plan{}
	silent := plan.On("get", "configmaps", faults.Silent())
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- get(ctx, client(t, s, plan)) }()
	if err := silent.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) || len(s.seen()) != 0 {
		t.Errorf("got %v, requests %v", err, s.seen())
	}
}

func TestHeld_SendsTheRequestWhenReleased(t *testing.T) {
	s, plan := newServer(t), &faults.Plan{}
	release := make(chan struct{})
	held := plan.On("get", "configmaps", faults.Held(release))
	ended := make(chan error)
	go func() { ended <- get(t.Context(), client(t, s, plan)) }()
	if err := held.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if len(s.seen()) != 0 {
		t.Errorf("the server got requests %v", s.seen())
	}
	close(release)
	if err := <-ended; err != nil || len(s.seen()) != 1 {
		t.Errorf("got %v, requests %v", err, s.seen())
	}
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	plan.Clear()
	plan.On("get", "configmaps", faults.Held(make(chan struct{})))
	if err := get(ctx, client(t, s, plan)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled request: %v", err)
	}
}

func TestHooks_RunBeforeAndAfterARequest(t *testing.T) {
	s, plan := newServer(t), &faults.Plan{}
	var order []string
	plan.Add(faults.Rule{Match: faults.Match{Verb: "write"}, Fault: faults.Before(func(r faults.Request) {
		order = append(order, "before "+r.String()+", the server has seen "+strings.Join(s.seen(), ";"))
	})})
	plan.Add(faults.Rule{Match: faults.Match{Verb: "write"}, Fault: faults.After(func(r faults.Request, code int) {
		order = append(order, "after "+r.String()+" "+http.StatusText(code)+", the server has seen "+strings.Join(s.seen(), ";"))
	})})
	c := client(t, s, plan)
	if err := errors.Join(get(t.Context(), c), create(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"before create configmaps in ws, the server has seen get configmaps ws/one",
		"after create configmaps in ws OK, the server has seen get configmaps ws/one;create configmaps in ws",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// open watches the ConfigMap.
func open(t *testing.T, ctx context.Context, c kubernetes.Interface) watch.Interface {
	t.Helper()
	watching, err := c.CoreV1().ConfigMaps("ws").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watching.Stop)
	return watching
}

func TestFault_AffectsWatches(t *testing.T) {
	s, plan := newServer(t), &faults.Plan{}
	c := client(t, s, plan)
	t.Run("without a fault it tells", func(t *testing.T) {
		if event := <-open(t, t.Context(), c).ResultChan(); event.Type != watch.Added {
			t.Errorf("%+v", event)
		}
	})
	t.Run("one that has expired says so in an event", func(t *testing.T) {
		expired := plan.On("watch", "configmaps", faults.ExpiredWatch())
		defer expired.End()
		event := <-open(t, t.Context(), c).ResultChan()
		if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Errorf("%+v", event)
		}
	})
	t.Run("one that has died tells nothing until it is given up", func(t *testing.T) {
		silent := plan.On("watch", "configmaps", faults.SilentBody())
		defer silent.End()
		watching := open(t, t.Context(), c)
		select {
		case event := <-watching.ResultChan():
			t.Errorf("%+v", event)
		default:
		}
		watching.Stop()
		for event := range watching.ResultChan() {
			if event.Type != watch.Error {
				t.Errorf("%+v", event)
			}
		}
	})
	t.Run("one that has died ends with its context", func(t *testing.T) {
		silent := plan.On("watch", "configmaps", faults.SilentBody())
		defer silent.End()
		ctx, giveUp := context.WithCancel(t.Context())
		watching := open(t, ctx, c)
		giveUp()
		for event := range watching.ResultChan() {
			if event.Type != watch.Error {
				t.Errorf("%+v", event)
			}
		}
	})
	t.Run("one of a server that is gone", func(t *testing.T) {
		lost := plan.On("watch", "configmaps", faults.Answer(500))
		defer lost.End()
		if _, err := c.CoreV1().ConfigMaps("ws").Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
			t.Error(err)
		}
	})
}
