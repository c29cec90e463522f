package faults_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// ca returns the CA of the server's certificate in PEM.
func (s *server) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func newProxy(t *testing.T, s *server) *faults.Proxy {
	t.Helper()
	p, err := faults.NewProxy(faults.Server{URL: s.URL, CA: s.ca()}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// process returns a client with its own connections, as a separate process has. It uses a kubeconfig.
func process(t *testing.T, p *faults.Proxy, protocols ...string) kubernetes.Interface {
	t.Helper()
	content, err := p.Kubeconfig(pki.Access{Token: "its-own"})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	cfg.NextProtos, cfg.QPS, cfg.ContentType = protocols, -1, "application/json"
	cfg.Dial = (&net.Dialer{}).DialContext // no shared connections
	made, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestProxy_ForwardsRequests(t *testing.T) {
	for name, protocols := range map[string][]string{"HTTP/2": nil, "HTTP/1.1": {"http/1.1"}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			p := newProxy(t, s)
			c := process(t, p, protocols...)
			if err := errors.Join(get(t.Context(), c), create(t.Context(), c)); err != nil {
				t.Fatal(err)
			}
			if s.auth != "Bearer its-own" || s.proto != "HTTP/2.0" {
				t.Errorf("the server got credential %q over %s", s.auth, s.proto)
			}
			if event := <-open(t, t.Context(), c).ResultChan(); event.Type != watch.Added {
				t.Errorf("the watch returned %+v", event)
			}
		})
	}
}

func TestProxy_AppliesFaults(t *testing.T) {
	for name, protocols := range map[string][]string{"HTTP/2": nil, "HTTP/1.1": {"http/1.1"}} {
		t.Run(name, func(t *testing.T) {
			tests := map[string]struct {
				fault  faults.Fault
				is     error
				server int // requests that reach the server
			}{
				"lost before": {faults.LostBefore(), foreign.ErrUnreachable, 0},
				"lost after":  {faults.LostAfter(), foreign.ErrUnreachable, 1},
			}
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					s := newServer(t)
					p := newProxy(t, s)
					p.Add(faults.Rule{Match: faults.Match{Verb: "create"}, Fault: test.fault})
					c := process(t, p, protocols...)
					if err := create(t.Context(), c); !errors.Is(foreign.Classify(err), test.is) {
						t.Errorf("got error %v", err)
					}
					if len(s.seen()) != test.server {
						t.Errorf("the server got requests %v", s.seen())
					}
					if err := get(t.Context(), c); err != nil {
						t.Errorf("the next request: %v", err)
					}
				})
			}
		})
	}
}

func TestProxy_CancelsTheRequestWithItsClient(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	silent := p.On("get", "configmaps", faults.Silent())
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- get(ctx, process(t, p)) }()
	if err := silent.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestProxyAfter_SeesTheWriteBeforeTheClient(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	ctx, kill := context.WithCancel(t.Context()) // closes the connections, as the end of a process does
	seen := make(chan []string, 1)
	p.Add(faults.Rule{Match: faults.Match{Verb: "write"}, Skip: 1, Times: 1, Fault: faults.After(func(faults.Request, int) {
		kill()
		seen <- s.seen()
	})})
	c := process(t, p)
	if err := create(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := create(ctx, c); err == nil {
		t.Error("want an error, because the client was killed")
	}
	if got := <-seen; len(got) != 2 {
		t.Errorf("the server got requests %v", got)
	}
}

func TestImpersonate_FailsTLS(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	c := process(t, p)
	if err := get(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p.Impersonate(true)
	if err := get(t.Context(), c); !errors.Is(foreign.Classify(err), foreign.ErrUntrusted) {
		t.Errorf("got error %v", err)
	}
	p.Impersonate(false)
	if err := get(t.Context(), c); err != nil {
		t.Error(err)
	}
	if len(s.seen()) != 2 {
		t.Errorf("the server got requests %v", s.seen())
	}
}

func TestProxyCut_EndsWatches(t *testing.T) {
	for name, protocols := range map[string][]string{"HTTP/2": nil, "HTTP/1.1": {"http/1.1"}} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, newServer(t))
			c := process(t, p, protocols...)
			watching := open(t, t.Context(), c)
			<-watching.ResultChan()
			p.Cut()
			for event := range watching.ResultChan() {
				if event.Type != watch.Error {
					t.Errorf("%+v", event)
				}
			}
			if err := get(t.Context(), c); err != nil {
				t.Errorf("the next request: %v", err)
			}
		})
	}
}

func TestNewProxyWithoutServer_Fails(t *testing.T) {
	if _, err := faults.NewProxy(faults.Server{URL: "https://a b"}, time.Now()); err == nil {
		t.Error("want an error for an invalid address")
	}
	p, err := faults.NewProxy(faults.Server{URL: "https://127.0.0.1:1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := get(t.Context(), process(t, p)); err == nil || errors.Is(err, io.ErrNoProgress) {
		t.Errorf("want an error without a server, got %v", err)
	}
}
