package kube

import (
	"net/http"
	"net/http/httptest"
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
