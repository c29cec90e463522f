package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Server describes the API server behind a proxy.
type Server struct {
	// URL is https://host:port. CA is the CA of its certificate in PEM.
	URL string
	CA  []byte
}

// Proxy is a proxy between processes and an API server. It terminates TLS, applies the faults of its Plan, and
// forwards requests with their credentials. Watches are forwarded too.
type Proxy struct {
	*Plan
	// URL is the proxy's URL. CA is the CA of its certificate in PEM.
	URL string
	CA  []byte
	// OtherCA is the CA of the certificate that it serves with Impersonate.
	OtherCA []byte

	server       *http.Server
	toServer     *http.Transport
	certificates [2]tls.Certificate // the proxy's own, and an untrusted one
	impersonates atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// NewProxy starts a proxy for an API server on a free loopback port. It runs until Close. now is the time for its
// certificate.
func NewProxy(to Server, now time.Time) (*Proxy, error) {
	target, err := url.Parse(to.URL)
	if err != nil {
		return nil, fmt.Errorf("parsing the server's URL: %w", err)
	}
	p := &Proxy{Plan: &Plan{}, conns: map[net.Conn]struct{}{}}
	for i := range p.certificates {
		ca, certificate, err := newIdentity(now)
		if err != nil {
			return nil, err
		}
		p.certificates[i] = certificate
		if i == 0 {
			p.CA = ca
		} else {
			p.OtherCA = ca
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(to.CA)
	p.toServer = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, DisableCompression: true}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p.URL = "https://" + listener.Addr().String()
	p.server = &http.Server{
		Handler: p.handler(target), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ConnState: p.track,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if p.impersonates.Load() {
				return &p.certificates[1], nil
			}
			return &p.certificates[0], nil
		}},
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // it ends with Close
	return p, nil
}

// connKey is the context key of a request's connection.
type connKey struct{}

// handler forwards requests. It reads a body as a whole first, because ReverseProxy hangs if a server of HTTP/2 answers
// before it has read the body.
func (p *Proxy) handler(target *url.URL) http.Handler {
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     p.Transport(p.toServer),
		FlushInterval: -1, // sends the events of a watch at once
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && errors.Is(err, ErrLost) {
				reset(conn)
			}
			panic(http.ErrAbortHandler) // aborts the response
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		forward.ServeHTTP(w, r)
	})
}

// Kubeconfig returns a kubeconfig for the API server through the proxy. The default Name is "proxy".
func (p *Proxy) Kubeconfig(who pki.Access) ([]byte, error) {
	who.URL, who.CA = p.URL, p.CA
	if who.Name == "" {
		who.Name = "proxy"
	}
	return who.Kubeconfig()
}

// Impersonate makes the proxy serve with an untrusted certificate, or with its own again. Existing connections
// are reset.
func (p *Proxy) Impersonate(somebodyElse bool) {
	p.impersonates.Store(somebodyElse)
	p.Cut()
}

// Cut resets all connections. Clients may connect again.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		reset(conn)
	}
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.toServer.CloseIdleConnections()
	return err
}

func (p *Proxy) track(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.conns[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, conn)
	}
}

// reset closes a connection with RST and without a TLS message, as if the network had lost it.
func reset(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only if it is closed already
	}
	_ = conn.Close() // see above
}

// newIdentity returns a CA, and a certificate for loopback that it has signed.
func newIdentity(now time.Time) (ca []byte, certificate tls.Certificate, err error) {
	dir, err := os.MkdirTemp("", "fleet-faults-")
	if err != nil {
		return nil, certificate, fmt.Errorf("creating a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's temporary directory
	identity, err := pki.New(dir, "proxy", now)
	if err != nil {
		return nil, certificate, err
	}
	certificate, err = tls.LoadX509KeyPair(filepath.Join(dir, pki.FileServing), filepath.Join(dir, pki.FileServingKey))
	if err != nil {
		return nil, certificate, fmt.Errorf("reading the proxy's certificate: %w", err)
	}
	return identity.CA, certificate, nil
}
