package charts_test

import (
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	helmregistry "helm.sh/helm/v3/pkg/registry"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

// serveOCI starts a registry with versions of the chart web.
func serveOCI(t *testing.T, wrap func(http.Handler) http.Handler, versions ...string) (host string) {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	host = strings.TrimPrefix(serve(t, wrap(handler)), "http://")
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptBasicAuth("me", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		data, err := os.ReadFile(packChart(t, t.TempDir(), "web", version))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Push(data, host+"/team/web:"+strings.ReplaceAll(version, "+", "_")); err != nil {
			t.Fatal(err)
		}
	}
	return host
}

// private requires credentials with the challenge that registries send.
func private(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func TestOCIRegistry_SelectsTheHighestVersionThatFits(t *testing.T) {
	host := serveOCI(t, private, "1.0.0", "1.1.4", "1.2.0", "1.3.0-rc.1")
	auth := login()
	auth.BasicHTTP = true
	for name, test := range map[string]struct {
		source charts.Source
		want   string
	}{
		"no version: pre-releases are skipped": {charts.Source{Repo: "oci://" + host + "/team/web"}, "1.2.0"},
		"constraint":                           {charts.Source{Repo: "oci://" + host + "/team/web", Version: "1.1.x"}, "1.1.4"},
		"exact version; chart is ignored":      {charts.Source{Repo: "oci://" + host + "/team/web", Chart: "x", Version: "1.3.0-rc.1"}, "1.3.0-rc.1"},
		"address as chart":                     {charts.Source{Chart: "oci://" + host + "/team/web", Version: "1.0.0"}, "1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			test.source.Auth = auth
			to := t.TempDir()
			if err := charts.Fetch(t.Context(), test.source, to); err != nil {
				t.Fatal(err)
			}
			if found := files(t, to); !strings.Contains(found["web/Chart.yaml"], "from "+test.want) {
				t.Errorf("files: %v", found)
			}
		})
	}
	auth.Password = "hunter2"
	err := charts.Fetch(t.Context(), charts.Source{Repo: "oci://" + host + "/team/web", Auth: auth}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("wrong password: error %v", err)
	}
}
