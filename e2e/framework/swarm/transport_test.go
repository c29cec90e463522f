package swarm

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tlsHub serves the fake hub with a real listener.
func tlsHub(t *testing.T, h *fakeHub) (server *httptest.Server, connections *atomic.Int32, versions *sync.Map) {
	t.Helper()
	connections, versions = &atomic.Int32{}, &sync.Map{}
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		versions.Store(r.Proto, true)
		answer, err := h.RoundTrip(r)
		if err != nil {
			return // the client has disconnected
		}
		w.WriteHeader(answer.StatusCode)
		_ = http.NewResponseController(w).Flush() // a watch is answered before its first event
		buffer := make([]byte, 4096)
		for {
			n, err := answer.Body.Read(buffer)
			_, _ = w.Write(buffer[:n]) // the client may have disconnected
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust the certificate
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, connections, versions
}

func TestAgent_UsesOneConnection(t *testing.T) {
	const agents = 5
	server, connections, versions := tlsHub(t, &fakeHub{hidden: 1, deployments: []string{deployment("a", "30", "s-1:2", "")}})
	values := testValues()
	values.APIServerURL = server.URL
	values.APIServerCA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	s := New(Options{Values: values})
	for range agents {
		s.Add(Settings{ClientID: "c"})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	s.Start(ctx, s.Agents()...)
	if err := s.Await(ctx, Settled, s.Agents()...); err != nil {
		t.Fatal(err)
	}
	cancel()
	s.Wait()
	if got := connections.Load(); got != agents {
		t.Errorf("%d agents had %d connections", agents, got)
	}
	versions.Range(func(version, _ any) bool {
		if version != "HTTP/2.0" {
			t.Errorf("a request was %s", version)
		}
		return true
	})
}

func TestUnknownCA_IsNotTrusted(t *testing.T) {
	server, _, _ := tlsHub(t, &fakeHub{})
	values := testValues()
	values.APIServerURL = server.URL
	a := New(Options{Values: values}).Add(Settings{ClientID: "c"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	a.swarm.Start(ctx, a)
	err := a.Await(ctx, func(s State) bool { return s.Failures > 0 })
	cancel()
	a.swarm.Wait()
	if s := a.State(); err != nil || s.Registrations != 0 || s.Problem == "" {
		t.Errorf("state %+v, %v", s, err)
	}
}

// faulty fails each request.
type faulty struct{ next http.RoundTripper }

var errLost = errors.New("connection lost")

func (f faulty) RoundTrip(*http.Request) (*http.Response, error) { return nil, errLost }

func TestWrap_AffectsTheAgentsRequests(t *testing.T) {
	s := New(Options{Values: testValues()})
	var wrapped atomic.Int32
	a := s.Add(Settings{ClientID: "c", Wrap: func(next http.RoundTripper) http.RoundTripper {
		wrapped.Add(1)
		return faulty{next: next}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	s.Start(ctx, a)
	err := a.Await(ctx, func(s State) bool { return s.Failures > 0 })
	cancel()
	s.Wait()
	if err != nil || wrapped.Load() != 1 {
		t.Fatalf("wrapped %d times, %v", wrapped.Load(), err)
	}
	if lost := s.Requests()[Request{"import", "create", "clusterregistrations", 0}]; lost == 0 {
		t.Errorf("requests %v", s.Requests())
	}
}
