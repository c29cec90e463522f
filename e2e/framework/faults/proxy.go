package faults

import (
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

// Server is an API server to stand in front of.
type Server struct {
	// URL is https://host:port, CA what its certificate is signed by, PEM.
	URL string
	CA  []byte
}

// Proxy stands between processes and an API server: it ends their connections, sees their requests, and sends them on
// with the credential they came with. What does not meet a fault of its Plan passes, watches included.
type Proxy struct {
	*Plan
	// URL is where processes reach it, CA what its certificate is signed by, PEM.
	URL string
	CA  []byte

	server       *http.Server
	toServer     *http.Transport
	certificates [2]tls.Certificate // its own, and an impostor's
	impersonates atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// NewProxy stands in front of an API server at a free port on loopback, until Close. now is for its certificate.
func NewProxy(to Server, now time.Time) (*Proxy, error) {
	target, err := url.Parse(to.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the server's address: %w", err)
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

// connKey finds a request's connection in its context.
type connKey struct{}

func (p *Proxy) handler(target *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     p.Transport(p.toServer),
		FlushInterval: -1, // a watch's events at once
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && errors.Is(err, ErrLost) {
				reset(conn)
			}
			panic(http.ErrAbortHandler) // no answer
		},
	}
}

// Kubeconfig leads to the API server through the proxy. A zero Name is "proxy".
func (p *Proxy) Kubeconfig(who pki.Access) ([]byte, error) {
	who.URL, who.CA = p.URL, p.CA
	if who.Name == "" {
		who.Name = "proxy"
	}
	return who.Kubeconfig()
}

// Impersonate lets somebody else answer at the proxy's address, with a certificate that no client trusts, until it is
// told otherwise. Connections there are, are lost.
func (p *Proxy) Impersonate(somebodyElse bool) {
	p.impersonates.Store(somebodyElse)
	p.Cut()
}

// Cut resets all connections there are. Clients may connect anew.
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

// reset ends a connection as a lost one ends: without a word of TLS, and with RST.
func reset(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // of one that is closed already
	}
	_ = conn.Close() // likewise
}

// newIdentity is a CA, and a certificate for loopback that it has signed.
func newIdentity(now time.Time) (ca []byte, certificate tls.Certificate, err error) {
	dir, err := os.MkdirTemp("", "fleet-faults-")
	if err != nil {
		return nil, certificate, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's temporary folder
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
