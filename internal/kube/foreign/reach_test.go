package foreign

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// silent accepts connections and says nothing.
func silent(t *testing.T) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr()
}

func TestReach(t *testing.T) {
	answers := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("credentials were sent")
			}
			w.WriteHeader(code)
		}
	}
	secure := httptest.NewTLSServer(answers(http.StatusForbidden))
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(answers(http.StatusOK))
	t.Cleanup(plain.Close)
	gone := httptest.NewServer(answers(http.StatusOK))
	gone.Close()
	hangsUp := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(hangsUp.Close)
	modern := httptest.NewUnstartedServer(answers(http.StatusForbidden))
	modern.EnableHTTP2 = true
	modern.StartTLS()
	t.Cleanup(modern.Close)
	redirects := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/", http.StatusFound))
	t.Cleanup(redirects.Close)
	hole := "https://" + silent(t).String()

	tests := map[string]struct {
		cfg         rest.Config
		within      time.Duration // empty: as long as it takes
		unreachable bool
	}{
		"any answer":                        {cfg: rest.Config{Host: secure.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(secure)}}},
		"server with HTTP/2":                {cfg: *kube.Tune(&rest.Config{Host: modern.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(modern)}})},
		"server without TLS":                {cfg: rest.Config{Host: plain.URL}},
		"untrusted certificate":             {cfg: rest.Config{Host: secure.URL}},
		"redirect":                          {cfg: rest.Config{Host: redirects.URL}},
		"no server":                         {cfg: rest.Config{Host: gone.URL}, unreachable: true},
		"server that does not answer":       {cfg: rest.Config{Host: hole}, within: 500 * time.Millisecond, unreachable: true},
		"server that closes the connection": {cfg: rest.Config{Host: hangsUp.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(secure)}}, unreachable: true},
		"invalid URL: reported elsewhere":   {cfg: rest.Config{Host: "https://a b"}},
		"invalid CA: reported elsewhere":    {cfg: rest.Config{Host: secure.URL, TLSClientConfig: rest.TLSClientConfig{CAFile: "/nowhere"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := Reach(t.Context(), &test.cfg, cmp.Or(test.within, time.Minute)); errors.Is(err, ErrUnreachable) != test.unreachable || !test.unreachable && err != nil {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Only the connection must be established in time, not the answer.
func TestReach_SlowServerIsReachable(t *testing.T) {
	kubetest.Patiently(t, 2*time.Second, func(connect time.Duration) error { return reachSlowly(t, connect) })
}

// reachSlowly reaches a server that answers later than it may be connected to.
func reachSlowly(t *testing.T, connect time.Duration) error {
	t.Helper()
	answer := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-answer:
			w.WriteHeader(http.StatusOK)
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	time.AfterFunc(connect+connect/2, func() { close(answer) })
	return Reach(t.Context(), &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}}, connect)
}

func TestReach_UsesTheProxy(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Host + r.Host
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(proxy.Close)
	kubeconfig := strings.ReplaceAll(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://far.example","proxy-url":"PROXY"}}],
"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}],"current-context":"x"}`, "PROXY", proxy.URL)
	cfg, err := kubeconfigs.Safe([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if err := Reach(t.Context(), cfg, time.Minute); err != nil || !strings.Contains(asked, "far.example") {
		t.Errorf("error %v, the proxy was asked %q", err, asked)
	}
}
