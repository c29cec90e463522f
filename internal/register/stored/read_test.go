package stored

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
)

// An agent without Secrets registers again. A page of a proxy does not show that there are none.
func TestNotFoundPageOfAProxy_IsAnError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	local, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	store := storeOf(local)
	store.Log = slog.New(slog.DiscardHandler)
	if _, err := store.Read(t.Context(), config.Agent{}); err == nil {
		t.Error("no error")
	}
}
