package foreign

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
)

// Reach reports whether anything responds at the address of cfg. Any response counts, also an untrusted
// certificate. It sends no credentials and uses one connection, which it closes. It waits for the connection and
// for TLS up to connect, and then up to RequestTimeout for the response. An unreachable server costs only this
// wait, so many can be checked at once. The error wraps ErrUnreachable.
func Reach(ctx context.Context, cfg *rest.Config, connect time.Duration) error {
	cfg = rest.AnonymousClientConfig(cfg)
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil //nolint:nilerr // the real connection will report it
	}
	trust, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	if trust == nil {
		trust = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	trust.NextProtos = nil // the transport below supports only HTTP/1.1
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	client := &http.Client{
		Transport: &http.Transport{
			Proxy: proxy, TLSClientConfig: trust, DisableKeepAlives: true,
			DialContext:         dialWithin(cfg, connect),
			TLSHandshakeTimeout: connect, ResponseHeaderTimeout: kube.RequestTimeout, MaxResponseHeaderBytes: headerLimit,
		},
		Timeout:       2*connect + kube.RequestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close() // only the existence of a response matters
		return nil
	}
	if err = failed(err); errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("checking whether the server responds: %w", err)
	}
	return nil // something responded
}

// dialWithin returns the dialer of cfg with this timeout.
func dialWithin(cfg *rest.Config, connect time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	if cfg.Dial == nil {
		return (&net.Dialer{Timeout: connect}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connect)
		defer cancel()
		return cfg.Dial(ctx, network, address)
	}
}
