package recovery_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/register/recovery"
)

// The hub would not accept another key of the agent.
func TestNotFoundPageOfAProxy_CreatesNoKey(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	local, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (recovery.Store{Local: local, Namespace: "agents", Log: slog.New(slog.DiscardHandler)}).Load(t.Context()); err == nil {
		t.Error("no error")
	}
}
