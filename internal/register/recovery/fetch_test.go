package recovery_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/register/recovery"
)

func TestFetch_SendsNoCredentialAndLimitsTheAnswer(t *testing.T) {
	const found = `{"kind":"ConfigMap","apiVersion":"v1","data":{"document":"signed"}}`
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"document":                             {http.StatusOK, found, "signed"},
		"anonymous clients may not read it":    {http.StatusForbidden, found, ""},
		"hub without one":                      {http.StatusNotFound, "{}", ""},
		"redirect is not followed":             {http.StatusFound, found, ""},
		"something else answers":               {http.StatusOK, "<html>", ""},
		"answer of 3 MiB":                      {http.StatusOK, `{"data":{"document":"` + strings.Repeat("a", 3<<20) + `"}}`, ""},
		"ConfigMap without the document's key": {http.StatusOK, `{"data":{"other":"x"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" || len(r.TLS.PeerCertificates) > 0 || r.URL.Path != "/api/v1/namespaces/kube-public/configmaps/fleet-hub" {
					t.Errorf("%s with %v", r.URL, r.Header)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			got, err := recovery.Fetch(t.Context(), server.URL)
			if got != test.want || err == nil && got == "" && !strings.Contains(test.body, "other") {
				t.Errorf("document %q, error %v", got[:min(len(got), 20)], err)
			}
			if err != nil && strings.Contains(err.Error(), "signed") {
				t.Errorf("the error quotes the answer: %v", err)
			}
		})
	}
}
