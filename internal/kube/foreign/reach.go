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

// Reach asks whether anybody answers where cfg leads, whatever the answer, an untrusted certificate included:
// without credentials, over one connection that is closed. It waits for the connection, and for TLS, as long as
// connect says, and then, for a server that takes its time, RequestTimeout. A server that is not there costs
// nothing but this wait, so that many may be asked at once. The error is ErrUnreachable.
func Reach(ctx context.Context, cfg *rest.Config, connect time.Duration) error {
	cfg = rest.AnonymousClientConfig(cfg)
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil //nolint:nilerr // whoever connects will say so
	}
	trust, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil //nolint:nilerr // the same
	}
	if trust == nil {
		trust = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	trust.NextProtos = nil // the transport below speaks nothing but HTTP/1.1, and must not be given anything else
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	client := &http.Client{
		Transport: &http.Transport{
			Proxy: proxy, TLSClientConfig: trust, DisableKeepAlives: true,
			DialContext:         dialWithin(cfg, connect),
			TLSHandshakeTimeout: connect, ResponseHeaderTimeout: kube.RequestTimeout,
		},
		Timeout:       2*connect + kube.RequestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return nil //nolint:nilerr // the same
	}
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close() // only the answer's existence mattered
		return nil
	}
	if err = failed(err); errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("asking whether the server is there: %w", err)
	}
	return nil // there is somebody
}

// dialWithin connects as cfg says, in this time.
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
