package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// The TLS modes, as configurations and Secrets spell them.
const (
	// TLSModeStrict trusts the CA that was handed over and nothing else.
	TLSModeStrict = "strict"
	// TLSModeSystemStore prefers the machine's roots, where they suffice, over the CA handed over.
	TLSModeSystemStore = "system-store"
)

// Sentinels of WithTLSMode.
var (
	// ErrUnknownTLSMode means the mode is neither "strict" nor "system-store"; empty is not either.
	ErrUnknownTLSMode = errors.New(`unknown TLS mode, want "system-store" or "strict"`)
	// ErrNoCA means strict mode was asked for without saying which CA to trust.
	ErrNoCA = errors.New("TLS mode strict needs a CA, but none is given")
)

// probeTimeout bounds the one request that asks whether the system's roots suffice.
const probeTimeout = 5 * time.Second

// WithTLSMode returns a copy of cfg that trusts what the mode says. In system-store mode one request
// without credentials is sent to the server under the system's roots: if any answer comes, the CA is
// dropped and the roots are used from then on; else the CA stays. Servers without TLS, and those an
// operator allowed to go unverified, are left alone in that mode.
func WithTLSMode(ctx context.Context, cfg *rest.Config, mode string) (*rest.Config, error) {
	return withTLSMode(ctx, cfg, mode, nil)
}

// withTLSMode takes the roots for a test's sake; nil are the system's.
func withTLSMode(ctx context.Context, cfg *rest.Config, mode string, roots *x509.CertPool) (*rest.Config, error) {
	cfg = rest.CopyConfig(cfg)
	hasCA := len(cfg.CAData) > 0 || cfg.CAFile != ""
	switch mode {
	case TLSModeStrict:
		if !hasCA {
			return nil, ErrNoCA
		}
		return cfg, nil
	case TLSModeSystemStore:
		if hasCA && trustedBy(ctx, cfg, roots) {
			cfg.CAData, cfg.CAFile = nil, ""
		}
		return cfg, nil
	default:
		return nil, fmt.Errorf("%w: %q", ErrUnknownTLSMode, mode)
	}
}

// CAFor is the CA that a client elsewhere is to keep for the server of cfg; none is the roots of its own system. The
// roots of this machine need not be that client's: in system-store mode they count for one that has relied on its own
// (rooted), and where the CA of cfg is not the server's.
func CAFor(ctx context.Context, cfg *rest.Config, mode string, rooted bool) ([]byte, error) {
	return caFor(ctx, cfg, mode, rooted, nil)
}

// caFor takes the roots for a test's sake; nil are the system's.
func caFor(ctx context.Context, cfg *rest.Config, mode string, rooted bool, roots *x509.CertPool) ([]byte, error) {
	own := x509.NewCertPool()
	if mode == TLSModeSystemStore && !rooted && own.AppendCertsFromPEM(cfg.CAData) && trustedBy(ctx, cfg, own) {
		return cfg.CAData, nil
	}
	cfg, err := withTLSMode(ctx, cfg, mode, roots)
	if err != nil {
		return nil, err
	}
	return cfg.CAData, nil
}

// trustedBy asks whether the server answers at all under these roots.
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
	}
	client := &http.Client{
		Transport: transport,
		Timeout:   probeTimeout,
		// A redirect is an answer, and where it leads is not the question.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false // not trusted, or not there: the CA handed over decides
	}
	_ = response.Body.Close() // only the answer's existence mattered
	return true
}
