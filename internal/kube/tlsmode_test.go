package kube

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func TestWithTLSMode(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the probe sent a credential")
		}
		http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusFound) // an answer like any other
	}))
	defer server.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	long := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Filler", strings.Repeat("x", 1<<20))
	}))
	defer long.Close() // it has the same certificate
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	given := []byte("the CA handed over")
	tests := map[string]struct {
		mode   string
		cfg    rest.Config
		roots  *x509.CertPool
		wantCA bool
		want   error
	}{
		"strict keeps the CA": {
			mode: "strict", cfg: kubetest.WithCA(server.URL, given), roots: roots, wantCA: true,
		},
		"strict takes a CA in a file": {
			mode: "strict", cfg: rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAFile: "/ca"}}, wantCA: true,
		},
		"strict without a CA is an error": {
			mode: "strict", cfg: rest.Config{Host: server.URL}, roots: roots, want: ErrNoCA,
		},
		"system-store drops the CA if the roots suffice": {
			mode: "system-store", cfg: kubetest.WithCA(server.URL, given), roots: roots,
		},
		"system-store keeps the CA if they do not": {
			mode: "system-store", cfg: kubetest.WithCA(server.URL, given), roots: x509.NewCertPool(), wantCA: true,
		},
		"system-store keeps the CA of an unreachable server": {
			mode: "system-store", cfg: kubetest.WithCA("https://127.0.0.1:1", given), roots: roots, wantCA: true,
		},
		"system-store keeps the CA of a server whose answer is too long": {
			mode: "system-store", cfg: kubetest.WithCA(long.URL, given), roots: roots, wantCA: true,
		},
		"system-store without a CA needs no answer": {
			mode: "system-store", cfg: rest.Config{Host: "https://127.0.0.1:1"}, roots: roots,
		},
		"system-store ignores a server without TLS": {
			mode: "system-store", cfg: kubetest.WithCA(plain.URL, given), roots: roots, wantCA: true,
		},
		"system-store ignores an invalid address": {
			mode: "system-store", cfg: kubetest.WithCA("https://%zz", given), roots: roots, wantCA: true,
		},
		"an empty mode is unknown":                  {mode: "", cfg: kubetest.WithCA(server.URL, given), want: ErrUnknownTLSMode},
		"another mode is unknown":                   {mode: "Strict", cfg: kubetest.WithCA(server.URL, given), want: ErrUnknownTLSMode},
		"an unknown mode without a host is unknown": {mode: "lax", cfg: rest.Config{}, want: ErrUnknownTLSMode},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.cfg.BearerToken = "secret"
			got, err := withTLSMode(t.Context(), &test.cfg, test.mode, test.roots)
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err != nil {
				return
			}
			if hasCA := len(got.CAData) > 0 || got.CAFile != ""; hasCA != test.wantCA {
				t.Errorf("has a CA: %v", hasCA)
			}
			if got.BearerToken != "secret" {
				t.Error("the token was lost")
			}
			if got == &test.cfg {
				t.Error("not a copy")
			}
		})
	}
}

func TestSystemStore_ConnectsOnce(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	cfg := kubetest.WithCA(server.URL, []byte("ca"))
	if _, err := withTLSMode(t.Context(), &cfg, "system-store", roots); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestSystemStore_KeepsTheCAOfAnUntrustedServer(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	cfg := kubetest.WithCA(server.URL, []byte("ca"))
	got, err := WithTLSMode(t.Context(), &cfg, config.TLSModeSystemStore)
	if err != nil || len(got.CAData) == 0 {
		t.Errorf("the CA was dropped: %v", err)
	}
}

func TestSystemStore_UsesProxyAndContext(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	cfg := kubetest.WithCA(server.URL, []byte("ca"))
	cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("no way out") }
	if got, err := withTLSMode(t.Context(), &cfg, "system-store", roots); err != nil || len(got.CAData) == 0 {
		t.Errorf("went past the proxy: %v", err)
	}
	cfg.Proxy = nil
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := withTLSMode(ended, &cfg, "system-store", roots); err != nil || len(got.CAData) == 0 {
		t.Errorf("asked after the end: %v", err)
	}
}

func TestCAFor(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	trusting := x509.NewCertPool()
	trusting.AddCert(server.Certificate())
	none := x509.NewCertPool()
	given, gone := kubetest.CAOf(server), "https://127.0.0.1:1"
	elsewhere := strings.Replace(server.URL, "127.0.0.1", "127.0.0.2", 1) // which the certificate does not name
	tests := map[string]struct {
		mode   string
		host   string
		ca     []byte
		rooted bool
		roots  *x509.CertPool
		want   []byte
	}{
		"CA of the server, roots trust the server":           {config.TLSModeSystemStore, server.URL, given, false, trusting, given},
		"CA of the server, roots do not trust the server":    {config.TLSModeSystemStore, server.URL, given, false, none, given},
		"another CA, roots trust the server":                 {config.TLSModeSystemStore, server.URL, []byte("PEM"), false, trusting, nil},
		"another CA, roots do not trust the server":          {config.TLSModeSystemStore, server.URL, []byte("PEM"), false, none, []byte("PEM")},
		"unreachable server":                                 {config.TLSModeSystemStore, gone, given, false, trusting, given},
		"certificate for another host":                       {config.TLSModeSystemStore, elsewhere, given, false, none, given},
		"client without a CA, roots trust the server":        {config.TLSModeSystemStore, server.URL, given, true, trusting, nil},
		"client without a CA, roots do not trust the server": {config.TLSModeSystemStore, server.URL, given, true, none, given},
		"strict keeps the CA":                                {config.TLSModeStrict, server.URL, []byte("PEM"), false, trusting, []byte("PEM")},
		"strict gives a CA to a client without one":          {config.TLSModeStrict, server.URL, given, true, trusting, given},
		"no CA: nothing is stored for a client":              {config.TLSModeSystemStore, server.URL, nil, false, none, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := kubetest.WithCA(test.host, test.ca)
			got, err := caFor(t.Context(), &cfg, test.mode, test.rooted, test.roots)
			if err != nil || !bytes.Equal(got, test.want) {
				t.Errorf("got %q and %v", got, err)
			}
		})
	}
	for mode, want := range map[string]error{config.TLSModeStrict: ErrNoCA, "lax": ErrUnknownTLSMode} {
		if _, err := CAFor(t.Context(), &rest.Config{Host: server.URL}, mode, false); !errors.Is(err, want) {
			t.Errorf("mode %s: got %v; want %v", mode, err, want)
		}
	}
}
