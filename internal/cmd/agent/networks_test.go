package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// front is a server that is reached as a hub is.
type front struct {
	URL string
	CA  []byte
}

// front listens at this address of the machine, with a certificate of its own.
func (s *site) front(address net.IP, handler http.Handler) front {
	s.t.Helper()
	dir := s.t.TempDir()
	identity, err := pki.New(dir, "front", now(), address)
	s.must(err)
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.FileServing), filepath.Join(dir, pki.FileServingKey))
	s.must(err)
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		s.t.Skipf("this machine has no address %s: %v", address, err)
	}
	server := httptest.NewUnstartedServer(handler)
	s.must(server.Listener.Close())
	server.Listener, server.EnableHTTP2 = listener, true
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	s.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return front{URL: "https://" + listener.Addr().String(), CA: identity.CA}
}

// hubHandler passes requests on to the hub.
func (s *site) hubHandler() http.Handler {
	s.t.Helper()
	target, err := url.Parse(s.plane.Hub.URL)
	s.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.plane.Hub.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0)}
}

func TestHubWithIPv6Address_AgentJoins(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ipv6")
	hub := s.front(net.IPv6loopback, s.hubHandler())
	token, values := s.token("t1")
	values.APIServerURL, values.APIServerCA = hub.URL, string(hub.CA)
	if !strings.HasPrefix(values.APIServerURL, "https://[::1]:") {
		t.Fatalf("the hub is at %s", values.APIServerURL)
	}
	s.deliver(values)
	s.startPod(first)
	s.answer(token)
	s.expectReady(first, true)
	s.heartbeat(now())
	if got := s.access().Server; got != hub.URL {
		t.Errorf("stored address %s, want %s", got, hub.URL)
	}
	s.expectRequests(1)
}

// proxy is an HTTP proxy for TLS connections, as companies have them. Whatever host is asked for, the hub is what it
// leads to.
type proxy struct {
	URL string

	mu    sync.Mutex
	asked []string
}

func (s *site) proxy() *proxy {
	s.t.Helper()
	hub, err := url.Parse(s.plane.Hub.URL)
	s.must(err)
	p := &proxy{}
	var carrying sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Method+" "+r.Host)
		p.mu.Unlock()
		there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", hub.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = there.Close() // nobody needs it
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n") // whoever has gone needs no answer
		for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
			carrying.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // until one of them ends
				_, _ = way[0].Close(), way[1].Close()
			})
		}
	}))
	p.URL = server.URL
	s.t.Cleanup(func() {
		server.Close()
		carrying.Wait() // the agents have ended
	})
	return p
}

// hosts are those the proxy was asked for, each once.
func (p *proxy) hosts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := slices.Clone(p.asked)
	slices.Sort(asked)
	return slices.Compact(asked)
}

// The hub is reached through the proxy of the environment, and the agent's own cluster is not.
func TestProxyForTheHub_IsUsed(t *testing.T) {
	t.Parallel()
	const outside = "kubernetes.default.svc:6443" // a name in the hub's certificate, which means nothing on this machine
	s := newSite(t, "proxy")
	p := s.proxy()
	token, values := s.token("t1")
	values.APIServerURL = "https://" + outside
	s.deliver(values)
	s.startPod(first,
		corev1.EnvVar{Name: "HTTPS_PROXY", Value: p.URL},
		corev1.EnvVar{Name: "HTTP_PROXY", Value: p.URL},
		corev1.EnvVar{Name: "NO_PROXY", Value: "127.0.0.0/8,10.0.0.0/8"},
	)
	s.answer(token)
	s.expectReady(first, true)
	s.heartbeat(now())
	if diff := cmp.Diff([]string{"CONNECT " + outside}, p.hosts()); diff != "" {
		t.Errorf("asked of the proxy (-want +got):\n%s", diff)
	}
	s.expectRequests(1)
}

// What NO_PROXY names is reached directly: here that is the hub, which has moved to where no proxy is needed.
func TestNoProxyForTheHub_ConnectsDirectly(t *testing.T) {
	t.Parallel()
	s := newSite(t, "no-proxy")
	p := s.proxy()
	token, values := s.token("t1")
	values.APIServerURL = "https://kubernetes.default.svc:6443"
	s.deliver(values)
	s.startPod(first,
		corev1.EnvVar{Name: "https_proxy", Value: p.URL},
		corev1.EnvVar{Name: "no_proxy", Value: ".svc"},
	)
	s.expectLog(first, "Failed to register agent", 1) // the name means nothing on this machine
	if hosts := p.hosts(); len(hosts) > 0 {
		t.Errorf("asked of the proxy: %v", hosts)
	}
	values.APIServerURL = s.plane.Hub.URL
	s.deliver(values)
	s.answer(token)
	s.expectReady(first, true)
}

// trusting is an environment in which the system's roots are these certificates.
func (s *site) trusting(ca []byte) []corev1.EnvVar {
	s.t.Helper()
	dir := s.t.TempDir()
	file := filepath.Join(dir, "roots.pem")
	s.must(os.WriteFile(file, ca, 0o600))
	return []corev1.EnvVar{{Name: "SSL_CERT_FILE", Value: file}, {Name: "SSL_CERT_DIR", Value: dir}}
}

// The system's roots have signed the hub's certificate, and the delivered CA has not.
func TestTLSModes(t *testing.T) {
	t.Parallel()
	t.Run("system-store: roots are trusted, and the CA is not stored", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "system-store")
		s.tlsMode = config.TLSModeSystemStore
		token, values := s.token("t1")
		values.APIServerCA = string(s.plane.Cluster(east).CA)
		s.deliver(values)
		s.startPod(first, s.trusting(s.plane.Hub.CA)...)
		s.answer(token)
		s.expectReady(first, true)
		if ca := s.access().CA; len(ca) > 0 {
			t.Errorf("the stored identity has a CA:\n%s", ca)
		}

		// The mode becomes strict: an identity without a CA is refused, until a CA comes.
		s.tlsMode = config.TLSModeStrict
		values.APIServerCA = string(s.plane.Hub.CA)
		s.configure() // first, or the Secret may be found to be of no use, and be gone
		s.deliver(values)
		s.expectMissing(names.AgentBootstrap)
		s.eventually("the CA in the stored identity", func(context.Context) error {
			if got := s.access().CA; string(got) != values.APIServerCA {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
		s.heartbeat(now())
		s.expectReady(first, true)
		s.expectRequests(1)
		s.expectAlive(first)
	})
	t.Run("strict: roots of the environment are not trusted", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "strict")
		_, values := s.token("t1")
		values.APIServerCA = string(s.plane.Cluster(east).CA)
		s.deliver(values)
		s.startPod(first, s.trusting(s.plane.Hub.CA)...)
		s.expectLog(first, "Failed to register agent", 1)
		s.expectLog(first, "signed by unknown authority", 1)
		s.expectExit(first, "signed by unknown authority")
		s.expectRequests(0)
	})
	t.Run("system-store: a trusted server that is not a hub is reported", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "no-hub")
		s.tlsMode = config.TLSModeSystemStore
		site := s.front(net.IPv4(127, 0, 0, 1), http.NotFoundHandler())
		_, values := s.token("t1")
		values.APIServerURL, values.APIServerCA = site.URL, ""
		s.deliver(values)
		s.startPod(first, s.trusting(site.CA)...)
		s.expectLog(first, "Failed to register agent", 1)
		s.expectLog(first, "could not find the requested resource", 1)
	})
}
