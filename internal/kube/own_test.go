package kube

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/version"
)

// TestRequests_NameTheProgram looks at what reaches a server, also through connections that clients share.
func TestRequests_NameTheProgram(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.UserAgent()
		http.Error(w, "no", http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	own := "kube.test/" + version.Version + " (" + runtime.GOOS + "/" + runtime.GOARCH + ")"
	tests := map[string]struct{ given, want string }{
		"this program, by its name":    {want: own},
		"whoever says so already does": {given: "somebody/1", want: "somebody/1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := Tune(&rest.Config{Host: server.URL, UserAgent: test.given})
			shared, err := rest.HTTPClientFor(cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, through := range []*http.Client{nil, shared} {
				client, err := FleetClient(cfg, through)
				if err != nil {
					t.Fatal(err)
				}
				if err := client.Get().Resource("clusters").Do(t.Context()).Error(); err == nil {
					t.Error("no error")
				}
				if got := <-asked; got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			}
		})
	}
}

// A proxy in front of the API server may ask for an hour.
func TestLoadOwn_LimitsRetryAfter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := LoadOwn(file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(own.Config)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got := answer.Header.Get("Retry-After"); got != "30" {
		t.Errorf("Retry-After %q, want 30", got)
	}
}
