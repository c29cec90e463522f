package hubclient

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

type recordingTransport struct{ got []string }

func (r *recordingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	r.got = append(r.got, request.Header.Get("Authorization"))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestCurrentToken_ReplacesTheFirstOneAfterARenewal(t *testing.T) {
	recorded, token := &recordingTransport{}, &atomic.Pointer[string]{}
	transport := UseToken(&rest.Config{}, token).WrapTransport(recorded)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub.example:6443", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer first")
	second := "second"
	for _, renewed := range []*string{nil, &second} {
		token.Store(renewed)
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(recorded.got, ", "); got != "Bearer first, Bearer second" || request.Header.Get("Authorization") != "Bearer first" {
		t.Errorf("sent %s; the request itself has %s", got, request.Header.Get("Authorization"))
	}
}
