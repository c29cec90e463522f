package charts_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

// packChart writes the archive of a small chart and returns its path.
func packChart(t *testing.T, dir, name, version string) string {
	t.Helper()
	path, err := chartutil.Save(&chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: name, Version: version, Description: "from " + version},
		Templates: []*chart.File{{Name: "templates/cm.yaml", Data: []byte("kind: ConfigMap\n")}},
	}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// repository returns a folder with an index and archives of the chart web.
func repository(t *testing.T, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, version := range versions {
		packChart(t, dir, "web", version)
	}
	writeIndex(t, dir, "")
	return dir
}

func writeIndex(t *testing.T, dir, base string) {
	t.Helper()
	index, err := repo.IndexDirectory(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	if err := index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// files returns all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if info.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			found[name] = "-> " + to
			return err
		}
		data, err := os.ReadFile(path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestChartRepository_SelectsTheHighestVersionThatFits(t *testing.T) {
	url := serve(t, http.FileServer(http.Dir(repository(t, "1.0.0", "1.1.4", "1.2.0", "1.3.0-rc.1"))))
	for name, test := range map[string]struct{ version, want string }{
		"no version: pre-releases are skipped": {"", "1.2.0"},
		"constraint":                           {"1.1.x", "1.1.4"},
		"exact version":                        {"1.0.0", "1.0.0"},
		"exact pre-release":                    {"1.3.0-rc.1", "1.3.0-rc.1"},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "chart")
			err := charts.Fetch(t.Context(), charts.Source{Repo: url + "/", Chart: "web", Version: test.version}, to)
			if err != nil {
				t.Fatal(err)
			}
			found := files(t, to)
			if !strings.Contains(found["web/Chart.yaml"], "from "+test.want) || found["web/templates/cm.yaml"] == "" {
				t.Errorf("files: %v", found)
			}
		})
	}
}
