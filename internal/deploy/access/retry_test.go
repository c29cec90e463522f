package access

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// client-go waits as long as the answer asks, up to ten times, and does not see that the agent stops.
func TestLongRetryAfter_IsLimited(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	client, err := rest.HTTPClientFor(WithBounds(&rest.Config{Host: server.URL}, make(chan struct{})))
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
