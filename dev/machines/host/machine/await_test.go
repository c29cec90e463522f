package machine

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAwaitURL_WaitsUntilTheStatusIs200(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not ready", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := AwaitURL(t.Context(), server.URL, ca, time.Minute); err != nil || asked.Load() != 3 {
		t.Errorf("asked %d times, error %v", asked.Load(), err)
	}
}

func TestAwaitURL_ReportsTheLastProblem(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ url, ca, want string }{
		"other status":      {plain.URL, "", "did not answer with status 200 within 5s: it answered with status 404 Not Found"},
		"unknown CA":        {secure.URL, "", "certificate signed by unknown authority"},
		"no server":         {"http://127.0.0.1:1/", "", "connection refused"},
		"no URL":            {"://", "", "missing protocol scheme"},
		"CA does not exist": {secure.URL, empty + "x", "reading the CA: "},
		"CA is empty":       {secure.URL, empty, "contains no certificate"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Long enough for a handshake, and for the system's roots to be loaded, on a busy machine.
			if err := AwaitURL(t.Context(), test.url, test.ca, 5*time.Second); !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
