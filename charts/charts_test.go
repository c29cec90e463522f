package charts_test

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/agentchart"
)

// release describes `helm install NAME --namespace NAMESPACE --values …`.
type release struct {
	chart, name, namespace string
	// values is the text of a values file.
	values string
	// serves are the groups and versions the server has; nil is all that one of today has, and Fleet's.
	serves chartutil.VersionSet
}

// render returns the rendered files by name, without empty ones.
func render(t *testing.T, r release) (map[string]string, error) {
	t.Helper()
	loaded, err := agentchart.Load(charts.FS, r.chart)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(r.values), &values); err != nil {
		t.Fatalf("the test's values: %v", err)
	}
	options := chartutil.ReleaseOptions{Name: r.name, Namespace: r.namespace, Revision: 1, IsInstall: true}
	scope, err := chartutil.ToRenderValues(loaded, values, options, r.capabilities())
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, scope)
	if err != nil {
		return nil, err
	}
	short := map[string]string{}
	for name, text := range files {
		if strings.TrimSpace(text) != "" {
			short[strings.TrimPrefix(name, r.chart+"/templates/")] = text
		}
	}
	return short, nil
}

func (r release) capabilities() *chartutil.Capabilities {
	server := chartutil.DefaultCapabilities.Copy()
	server.KubeVersion = chartutil.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}
	server.APIVersions = slices.Concat(server.APIVersions, chartutil.VersionSet{"fleet.cattle.io/v1alpha1"})
	if r.serves != nil {
		server.APIVersions = r.serves
	}
	return server
}

// mustRender is like render, and fails the test on an error.
func mustRender(t *testing.T, r release) map[string]string {
	t.Helper()
	files, err := render(t, r)
	if err != nil {
		t.Fatalf("rendering %s: %v", r.chart, err)
	}
	return files
}

// one joins files into one text, sorted by name.
func one(files map[string]string) string {
	var b strings.Builder
	for _, name := range sortedKeys(files) {
		b.WriteString("--- # " + name + "\n" + strings.TrimSpace(files[name]) + "\n")
	}
	return b.String()
}

func TestEmbeddedCharts_AreComplete(t *testing.T) {
	for _, name := range []string{"fleet-crd", "fleet", "fleet-agent"} {
		t.Run(name, func(t *testing.T) {
			var embedded, onDisk []string
			walk := func(into *[]string) fs.WalkDirFunc {
				return func(path string, entry fs.DirEntry, err error) error {
					if err == nil && !entry.IsDir() {
						*into = append(*into, filepath.ToSlash(path))
					}
					return err
				}
			}
			if err := fs.WalkDir(charts.FS, name, walk(&embedded)); err != nil {
				t.Fatal(err)
			}
			if err := filepath.WalkDir(name, walk(&onDisk)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(onDisk, embedded); diff != "" {
				t.Errorf("files (-on disk +embedded):\n%s", diff)
			}
		})
	}
}

// TestLint runs `helm lint`.
func TestLint(t *testing.T) {
	tests := map[string]struct{ chart, values string }{
		"fleet-crd":              {chart: "fleet-crd"},
		"fleet":                  {chart: "fleet"},
		"fleet, all of it":       {chart: "fleet", values: controllersReleases()["everything"].values},
		"fleet-agent":            {chart: "fleet-agent", values: tokenValues},
		"fleet-agent, all of it": {chart: "fleet-agent", values: agentReleases()["everything"].values},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{}
			if err := yaml.Unmarshal([]byte(test.values), &values); err != nil {
				t.Fatal(err)
			}
			for _, message := range lint.All(test.chart, values, "cattle-fleet-system", true).Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}
