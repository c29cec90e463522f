package source

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A hostile server, or a proxy whose upstream is gone, must not keep a worker of the agent or fill its memory.
func TestServerOfARemoteResource_CannotKeepTheBuild(t *testing.T) {
	begun := func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, "kind: ConfigMap\n")
		w.(http.Flusher).Flush()
	}
	tests := map[string]struct {
		answer, whole time.Duration // the limits of a download
		serve         func(w http.ResponseWriter, ended <-chan struct{})
		want          string
	}{
		"accepts connections and never answers": {200 * time.Millisecond, time.Hour, func(_ http.ResponseWriter, ended <-chan struct{}) { <-ended }, "timeout awaiting response headers"},
		"stalls after it has begun to answer": {time.Hour, time.Second, func(w http.ResponseWriter, ended <-chan struct{}) {
			begun(w)
			<-ended
		}, "i/o timeout"},
		"sends a little from time to time": {time.Hour, time.Second, func(w http.ResponseWriter, ended <-chan struct{}) {
			for ticks := time.Tick(10 * time.Millisecond); ; {
				select {
				case <-ended:
					return
				case <-ticks:
					begun(w)
				}
			}
		}, "i/o timeout"},
		"sends too much": {time.Hour, time.Hour, func(w http.ResponseWriter, _ <-chan struct{}) { _, _ = io.WriteString(w, strings.Repeat("#", 8<<20)) }, "a remote resource has more than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			limitDownloads(test.answer, test.whole, 1<<20)
			ended := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.serve(w, ended) }))
			defer server.Close()
			defer close(ended)
			done := make(chan error, 1)
			go func() { done <- buildRemote(server.URL + "/remote.yaml") }()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			case <-time.After(20 * time.Second):
				t.Error("the build waits for the server")
			}
		})
	}
}

func buildRemote(url string) error {
	files := []file{{Name: "kustomization.yaml", Data: []byte("resources: [" + url + "]\n")}}
	_, err := kustomize(&Package{Style: style{Kustomization: "kustomization.yaml"}, Files: files}, nil)
	return err
}
