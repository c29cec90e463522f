package kubetest

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func Answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// CAOf returns the certificate of a test server as PEM.
func CAOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func WithCA(host string, ca []byte) rest.Config {
	return rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// Kubeconfig returns a working kubeconfig after replacing text. The arguments are pairs of old and new text.
func Kubeconfig(replacements ...string) []byte {
	const text = `apiVersion: v1
kind: Config
clusters:
- name: east
  cluster:
    server: https://10.99.0.3:6443
    certificate-authority-data: Y2E=
users:
- name: admin
  user:
    token: SECRET
contexts:
- name: east
  context: {cluster: east, user: admin}
current-context: east
`
	return []byte(strings.NewReplacer(replacements...).Replace(text))
}

// Patiently runs try with a deadline, and with longer ones while it fails. A busy machine can miss any deadline,
// while a real error fails with each.
func Patiently(t *testing.T, deadline time.Duration, try func(deadline time.Duration) error) {
	t.Helper()
	const longest = 20 * time.Second
	for ; ; deadline *= 3 {
		err := try(deadline)
		if err == nil {
			return
		}
		if deadline > longest {
			t.Fatalf("with a deadline of %s: %v", deadline, err)
		}
		t.Logf("with a deadline of %s: %v", deadline, err)
	}
}
