package source

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A server that accepts connections and never answers, such as a proxy whose upstream is gone.
func TestSilentServerOfARemoteResource_EndsTheBuild(t *testing.T) {
	limitDownloads(100 * time.Millisecond)
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	files := []file{{Name: "kustomization.yaml", Data: []byte("resources: [" + server.URL + "/remote.yaml]\n")}}
	done := make(chan error, 1)
	go func() {
		_, err := kustomize(&Package{Style: style{Kustomization: "kustomization.yaml"}, Files: files}, nil)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "timeout awaiting response headers") {
			t.Errorf("error %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the build waits for the server")
	}
}
