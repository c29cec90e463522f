package leader

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// patience is for what takes milliseconds.
const patience = 2 * time.Minute

// closings is a server that tells of the connections that end.
func closings(t *testing.T) (*rest.Config, <-chan struct{}) {
	t.Helper()
	closed := make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"gitVersion":"v1"}`))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}}, closed
}

func TestWrappedTransports_CloseIdleConnections(t *testing.T) {
	tests := map[string]func(*rest.Config) *rest.Config{
		"no wrapper":  func(cfg *rest.Config) *rest.Config { return cfg },
		"Fence.Guard": NewFence(time.Now).Guard,
		"Fence.watch": func(cfg *rest.Config) *rest.Config { return NewFence(time.Now).watch(cfg, "lease", time.Hour) },
		"restoreDetector.watch": func(cfg *rest.Config) *rest.Config {
			return (&restoreDetector{versions: map[string]string{}}).watch(cfg, "lease")
		},
		"kube.RelistAfterOutage": kube.RelistAfterOutage,
		"kube.RetrySoon":         kube.RetrySoon,
		"all that the controllers use": func(cfg *rest.Config) *rest.Config {
			return NewFence(time.Now).Guard(kube.RelistAfterOutage(cfg))
		},
	}
	for name, way := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, closed := closings(t)
			d, err := foreign.New(way(cfg))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.ServerVersion(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.Close()
			select {
			case <-closed:
			case <-time.After(patience):
				t.Error("the connection stays open")
			}
		})
	}
}
