package charts_test

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
)

func TestFleetCRDRendersEveryGeneratedFileAsItIs(t *testing.T) {
	files, err := fs.Glob(charts.FS, "fleet-crd/crd-bases/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 8 {
		t.Errorf("%d generated files, want one for each of 8 kinds", len(files))
	}
	want := map[string]any{}
	for _, file := range files {
		text, err := charts.FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		addCRD(t, want, string(text))
	}
	rendered, err := renderCRDs(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, manifest := range releaseutil.SplitManifests(rendered["fleet-crd/templates/crds.yaml"]) {
		addCRD(t, got, manifest)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CRDs (-generated +rendered):\n%s", diff)
	}
}

func TestFleetCRDHasNoCRDsThatHelmWouldNeverUpgrade(t *testing.T) {
	if found := loadCRDs(t).CRDObjects(); len(found) != 0 {
		t.Errorf("%d files in a crds/ folder", len(found))
	}
}

func TestFleetCRDTakesNoValues(t *testing.T) {
	tests := map[string]struct {
		values map[string]any
		want   string
	}{
		"none":                              {nil, ""},
		"what Helm hands down to a part":    {map[string]any{"global": map[string]any{"cattle": "x"}}, ""},
		"a value of the chart fleet":        {map[string]any{"bootstrap": map[string]any{"enabled": true}}, "bootstrap"},
		"a misspelt one":                    {map[string]any{"Global": map[string]any{}}, "Global"},
		"something else where global might": {map[string]any{"global": "x"}, "global"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := renderCRDs(t, test.values)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want it refused for %s", err, test.want)
			}
		})
	}
}

func addCRD(t *testing.T, found map[string]any, text string) {
	t.Helper()
	var crd struct {
		Kind     string
		Metadata struct{ Name string }
	}
	var whole any
	if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	if _, ok := found[crd.Metadata.Name]; ok || crd.Kind != "CustomResourceDefinition" {
		t.Errorf("%s %q: not a CRD, or there twice", crd.Kind, crd.Metadata.Name)
	}
	found[crd.Metadata.Name] = whole
}

func renderCRDs(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	loaded := loadCRDs(t)
	options := chartutil.ReleaseOptions{Name: "fleet-crd", Namespace: "cattle-fleet-system", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, options, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

func loadCRDs(t *testing.T) *chart.Chart {
	t.Helper()
	const root = "fleet-crd"
	var files []*loader.BufferedFile
	err := fs.WalkDir(charts.FS, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := charts.FS.ReadFile(name)
		files = append(files, &loader.BufferedFile{Name: strings.TrimPrefix(name, path.Clean(root)+"/"), Data: text})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
