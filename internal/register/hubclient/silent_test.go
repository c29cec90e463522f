package hubclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/register/heartbeat"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// pipes is a network of one server, in memory so that it lives in a bubble's time. A silent one takes what is sent
// and delivers nothing: neither side hears of it.
type pipes struct {
	mu       sync.Mutex
	silent   chan struct{} // closed for the connections that were open when they fell silent
	accepted chan net.Conn
	closed   chan struct{}
}

func newPipes() *pipes {
	return &pipes{silent: make(chan struct{}), accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// fallSilent is the end of all connections that are open now.
func (p *pipes) fallSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.silent)
	p.silent = make(chan struct{})
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	select {
	case p.accepted <- mute{there, silent}:
		return mute{here, silent}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

// mute is one end of a connection.
type mute struct {
	net.Conn
	silent <-chan struct{}
}

func (m mute) Write(data []byte) (int, error) {
	select {
	case <-m.silent:
		return len(data), nil
	default:
	}
	return m.Conn.Write(data)
}

// quietHub answers a watch with one event and then nothing, and takes heartbeats.
type quietHub struct {
	mu    sync.Mutex
	beats []time.Time
}

func (h *quietHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPatch:
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		h.beats = append(h.beats, time.Now())
		h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"another"}}}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func (h *quietHub) last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.beats) == 0 {
		return time.Time{}
	}
	return h.beats[len(h.beats)-1]
}

// hubIdentity is a server's certificate, for example.com and loopback addresses, and what has signed it.
type hubIdentity struct {
	certificate tls.Certificate
	ca          []byte
}

func newHubIdentity() hubIdentity {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return hubIdentity{
		certificate: server.TLS.Certificates[0],
		ca:          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}

// serve runs the hub on the pipes and returns the way to it.
func (h *quietHub) serve(t *testing.T, p *pipes, as hubIdentity, protocols ...string) Access {
	t.Helper()
	server := &http.Server{Handler: h, ErrorLog: quiet(), ReadHeaderTimeout: time.Minute}
	if len(protocols) == 1 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	listening := tls.NewListener(p, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{as.certificate}, NextProtos: protocols})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listening); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving: %v", err)
		}
	})
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return Access{Server: "https://example.com:6443", CA: as.ca, Token: "account-0"}
}

// No packet of the connection arrives any more. Watches and heartbeats detect that by HTTP/2 pings and open another
// connection, whatever CA has signed the certificate.
func TestSilentConnection_IsReplacedWithin45Seconds(t *testing.T) {
	identity := newHubIdentity() // with connections of the real network
	tests := map[string]func(t *testing.T, network *pipes, access Access) *rest.Config{
		"with a CA": func(_ *testing.T, network *pipes, access Access) *rest.Config {
			cfg := access.Config()
			cfg.Dial = network.dial
			return cfg
		},
		"with the system's roots": func(t *testing.T, network *pipes, access Access) *rest.Config {
			access.CA = nil
			cfg := access.Config()
			rooted(t, cfg, network, identity.ca)
			return cfg
		},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network, hub := newPipes(), &quietHub{}
				expectSilenceNoticed(t, network, hub, config(t, network, hub.serve(t, network, identity, "h2", "http/1.1")))
			})
		})
	}
}

// rooted leads the clients of cfg through the network, and makes the CA one of the system's roots to them. A cfg with a
// way of its own would get a transport of its own already for that, so what client-go keeps for such a cfg is changed.
func rooted(t *testing.T, cfg *rest.Config, network *pipes, ca []byte) {
	t.Helper()
	cfg.DisableCompression = true // no other test has its transport
	kept, err := rest.TransportFor(&rest.Config{Host: cfg.Host, TLSClientConfig: cfg.TLSClientConfig, DisableCompression: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runtime.KeepAlive(kept) })
	inner := kept
	for wrapper, ok := inner.(utilnet.RoundTripperWrapper); ok; wrapper, ok = inner.(utilnet.RoundTripperWrapper) {
		inner = wrapper.WrappedRoundTripper()
	}
	transport, ok := inner.(*http.Transport)
	if !ok || inner == http.DefaultTransport {
		t.Fatalf("the transport is %T, and net/http's own: %t", inner, inner == http.DefaultTransport)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport.DialContext, transport.TLSClientConfig.RootCAs = network.dial, roots
	t.Cleanup(transport.CloseIdleConnections)
}

// expectSilenceNoticed watches, and sends heartbeats, while the network falls silent.
func expectSilenceNoticed(t *testing.T, network *pipes, hub *quietHub, cfg *rest.Config) {
	t.Helper()
	client, err := Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		err := heartbeat.Run(ctx, heartbeat.Options{
			Hub: cfg, ClusterNamespace: "fleet-default", ClusterName: "a", Interval: 10 * time.Second, Clock: time.Now, Random: nil,
		})
		if err != nil {
			t.Errorf("heartbeats ended: %v", err)
		}
	})
	defer func() { cancel(); beating.Wait() }()
	watching, err := client.WatchCredential(ctx, "ns", "c-1")
	if err != nil {
		t.Fatal(err)
	}
	if event := <-watching.ResultChan(); event.Type != watch.Added {
		t.Fatalf("the watch began with %v", event)
	}
	<-time.After(25 * time.Second)

	silent := time.Now()
	network.fallSilent()
	for range watching.ResultChan() { // to its end
	}
	if after := time.Since(silent); after > 45*time.Second {
		t.Errorf("the watch ended after %s", after)
	}
	<-time.After(45*time.Second - time.Since(silent))
	if !hub.last().After(silent) {
		t.Errorf("no heartbeat within 45s")
	}
	again, err := client.WatchCredential(ctx, "ns", "c-1")
	if err != nil {
		t.Fatalf("watching again: %v", err)
	}
	again.Stop()
}

// Single requests end in time where nothing else notices: on HTTP/1.1, which knows no signs of life.
func TestSilentHub_RequestsTimeOut(t *testing.T) {
	identity := newHubIdentity() // with connections of the real network
	synctest.Test(t, func(t *testing.T) {
		network, hub := newPipes(), &quietHub{}
		cfg := hub.serve(t, network, identity, "http/1.1").Config()
		cfg.Dial = network.dial
		client, err := Connect(cfg)
		if err != nil {
			t.Fatal(err)
		}
		watching, err := client.WatchCredential(t.Context(), "ns", "c-1") // so that there is a connection
		if err != nil {
			t.Fatal(err)
		}
		watching.Stop()
		network.fallSilent()
		network.mu.Lock()
		close(network.silent) // those to come are silent, too
		network.mu.Unlock()
		began := time.Now()
		if answer := AnswerOf(client.Prove(t.Context(), "ns")); answer != registering.Unanswered {
			t.Errorf("answer %s", answer)
		}
		if took := time.Since(began); took > kube.RequestTimeout {
			t.Errorf("it took %s", took)
		}
		network.mu.Lock()
		network.silent = make(chan struct{})
		network.mu.Unlock()
	})
}
