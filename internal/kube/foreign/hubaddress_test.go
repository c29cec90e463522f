package foreign

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func TestHubAddressOfASecret_LeadsOnlyWhereKubeconfigsMay(t *testing.T) {
	resolveToLoopback(t)
	victim, connections := startVictim(t, http.NotFound)
	_, port, err := net.SplitHostPort(victim.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ca := kubetest.CAOf(victim)
	refused := Options{Refused: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	tests := map[string]struct {
		url     string
		mode    string
		ca      []byte
		options Options
		want    []byte
		is      error
		reached bool
	}{
		"loopback address: refused":                   {"https://127.0.0.1:" + port, config.TLSModeSystemStore, ca, refused, nil, ErrHubAddress, false},
		"metadata of a cloud: refused":                {"https://169.254.169.254/latest", config.TLSModeSystemStore, ca, refused, nil, ErrHubAddress, false},
		"name of a Service: refused":                  {"https://db.ws.svc:" + port, config.TLSModeSystemStore, ca, refused, nil, ErrHubAddress, false},
		"name without a dot: refused":                 {"https://db:" + port, config.TLSModeSystemStore, ca, refused, nil, ErrHubAddress, false},
		"network that the operator lists: refused":    {"https://10.96.0.1", config.TLSModeSystemStore, ca, refused, nil, ErrHubAddress, false},
		"name that resolves to loopback: refused":     {"https://rebinding.example:" + port, config.TLSModeSystemStore, ca, refused, nil, ErrHubAddress, false},
		"operator allows any address: connected":      {"https://127.0.0.1:" + port, config.TLSModeSystemStore, ca, Options{AnyAddress: true}, ca, nil, true},
		"mode strict: CA is used without connecting":  {"https://127.0.0.1:" + port, config.TLSModeStrict, ca, refused, ca, nil, false},
		"no CA: roots are used without connecting":    {"https://127.0.0.1:" + port, config.TLSModeSystemStore, nil, refused, nil, nil, false},
		"unknown mode: error without connecting":      {"https://127.0.0.1:" + port, "lax", ca, refused, nil, kube.ErrUnknownTLSMode, false},
		"URL that cannot be parsed: CA without error": {"https://%zz", config.TLSModeSystemStore, ca, refused, ca, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			connections.Store(0)
			cfg := kubetest.WithCA(test.url, test.ca)
			got, err := test.options.HubCA(t.Context(), &cfg, test.mode, false)
			if !errors.Is(err, test.is) || !bytes.Equal(got, test.want) {
				t.Errorf("CA %q, error %v; want %q and %v", got, err, test.want, test.is)
			}
			if n := connections.Load(); (n > 0) != test.reached {
				t.Errorf("%d connections", n)
			}
			if cfg.Dial != nil || cfg.Proxy != nil {
				t.Error("the caller's configuration was changed")
			}
		})
	}
}

// The user chooses the URL, but not what is requested.
func TestHubAddressOfASecret_RequestsOnlyTheRoot(t *testing.T) {
	elsewhere, redirected := startVictim(t, http.NotFound)
	var requests []string
	server, _ := startVictim(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization"))
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	ca := kubetest.CAOf(server)
	cfg := kubetest.WithCA(strings.Replace(server.URL, "https://", "https://user:password@", 1)+"/victim?delete=all", ca)
	got, err := Options{AnyAddress: true}.HubCA(t.Context(), &cfg, config.TLSModeSystemStore, false)
	if err != nil || !bytes.Equal(got, ca) {
		t.Errorf("CA %q, error %v", got, err)
	}
	if len(requests) != 1 || requests[0] != "GET / " {
		t.Errorf("requests %q", requests)
	}
	if n := redirected.Load(); n != 0 {
		t.Errorf("%d connections to the target of the redirect", n)
	}
}
