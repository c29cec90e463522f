package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
)

// Sentinels of WithTLSMode.
var (
	// ErrUnknownTLSMode means that the mode is neither "strict" nor "system-store". An empty mode is also unknown.
	ErrUnknownTLSMode = errors.New(`unknown TLS mode, want "system-store" or "strict"`)
	// ErrNoCA means that the mode is strict but no CA is given.
	ErrNoCA = errors.New("TLS mode strict needs a CA, but none is given; add the CA, or set agentTLSMode to system-store")
)

// probeTimeout limits the request that tests whether the system's roots suffice.
const probeTimeout = 5 * time.Second

// probeHeader limits the header of the response to that request, in bytes. The body is not read.
const probeHeader = 64 << 10

// WithTLSMode returns a copy of cfg with the trust of the mode. In system-store mode it sends one request
// without credentials to the server, using the system's roots. If any response arrives, it drops the CA and uses
// the roots. Otherwise it keeps the CA. In that mode it does not change servers without TLS, or those for which
// an operator has turned verification off.
func WithTLSMode(ctx context.Context, cfg *rest.Config, mode string) (*rest.Config, error) {
	return withTLSMode(ctx, cfg, mode, nil)
}

// withTLSMode implements WithTLSMode. Tests pass roots; nil means the system's roots.
func withTLSMode(ctx context.Context, cfg *rest.Config, mode string, roots *x509.CertPool) (*rest.Config, error) {
	cfg = rest.CopyConfig(cfg)
	hasCA := len(cfg.CAData) > 0 || cfg.CAFile != ""
	switch mode {
	case config.TLSModeStrict:
		if !hasCA {
			return nil, ErrNoCA
		}
		return cfg, nil
	case config.TLSModeSystemStore:
		if hasCA && trustedBy(ctx, cfg, roots) {
			cfg.CAData, cfg.CAFile = nil, ""
		}
		return cfg, nil
	default:
		return nil, fmt.Errorf("%w: %q", ErrUnknownTLSMode, mode)
	}
}

// CAFor returns the CA that a client on another machine must use for the server of cfg. Nil means the roots of
// that machine. Its roots may differ from those of this machine. So in system-store mode the result is nil only
// if that client already uses its own roots (rooted), or if the CA of cfg is not the server's.
func CAFor(ctx context.Context, cfg *rest.Config, mode string, rooted bool) ([]byte, error) {
	return caFor(ctx, cfg, mode, rooted, nil)
}

// caFor implements CAFor. Tests pass roots; nil means the system's roots.
func caFor(ctx context.Context, cfg *rest.Config, mode string, rooted bool, roots *x509.CertPool) ([]byte, error) {
	own := x509.NewCertPool()
	if mode == config.TLSModeSystemStore && !rooted && own.AppendCertsFromPEM(cfg.CAData) && trustedBy(ctx, cfg, own) {
		return cfg.CAData, nil
	}
	cfg, err := withTLSMode(ctx, cfg, mode, roots)
	if err != nil {
		return nil, err
	}
	return cfg.CAData, nil
}

// trustedBy reports whether the server responds when these roots are used.
func trustedBy(ctx context.Context, cfg *rest.Config, roots *x509.CertPool) bool {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil || base.Scheme != "https" {
		return false
	}
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	transport := &http.Transport{
		Proxy:             proxy,
		DialContext:       cfg.Dial,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: cfg.ServerName},
		DisableKeepAlives: true,

		MaxResponseHeaderBytes: probeHeader,
	}
	client := &http.Client{
		Transport: transport,
		Timeout:   probeTimeout,
		// A redirect is a response; its target does not matter.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	// The certificate does not depend on the path. A path, a query or a user may come from someone who must not choose
	// what is requested.
	target := url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/"}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false // untrusted or unreachable: use the given CA
	}
	_ = response.Body.Close() // only the existence of a response matters
	return true
}
