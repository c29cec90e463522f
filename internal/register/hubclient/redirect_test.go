package hubclient

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The server has the hub's certificate, for example as a load balancer in front of it that asks for a login.
func TestRedirect_DoesNotSendTheTokenElsewhere(t *testing.T) {
	var received atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			received.Add(1)
		}
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
			}))
			t.Cleanup(server.Close)
			access := Access{Server: server.URL, Token: "t", CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
			renewed := &atomic.Pointer[string]{}
			token := "renewed"
			renewed.Store(&token)
			hub, err := Connect(SignalRejections(UseToken(access.Config(), renewed), make(chan struct{}, 1)))
			if err != nil {
				t.Fatal(err)
			}
			err = hub.Prove(t.Context(), "cluster-a")
			if !errors.Is(err, errRedirected) || AnswerOf(err) != registering.Unanswered {
				t.Errorf("list: %v", err)
			}
			if _, err := hub.Register(t.Context(), &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}); !errors.Is(err, errRedirected) {
				t.Errorf("create: %v", err)
			}
			if _, err := hub.WatchCredential(t.Context(), "n", "c"); !errors.Is(err, errRedirected) {
				t.Errorf("watch: %v", err)
			}
			if n := received.Load(); n > 0 {
				t.Errorf("%d tokens were sent elsewhere", n)
			}
		})
	}
}
