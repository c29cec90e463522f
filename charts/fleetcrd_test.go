package charts_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
)

// acted are the kinds that controllers and agents act on; stored are those that are only stored.
const acted, stored = "fleet-crd/crd-bases/*.yaml", "fleet-crd/crd-others/*.yaml"

func TestFleetCRDChart_RendersEveryFileUnchanged(t *testing.T) {
	want := map[string]any{}
	for folder, number := range map[string]int{acted: 8, stored: 6} {
		files, err := fs.Glob(charts.FS, folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != number {
			t.Errorf("%s: %d files, want one for each of %d kinds", folder, len(files), number)
		}
		for _, file := range files {
			text, err := charts.FS.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			addCRD(t, want, string(text))
		}
	}
	if diff := cmp.Diff(want, renderedCRDs(t)); diff != "" {
		t.Errorf("CRDs (-files +rendered):\n%s", diff)
	}
}

// renderedCRDs returns the CRDs of the chart by name.
func renderedCRDs(t *testing.T) map[string]any {
	t.Helper()
	rendered, err := renderCRDs(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, manifest := range releaseutil.SplitManifests(rendered["fleet-crd/templates/crds.yaml"]) {
		addCRD(t, got, manifest)
	}
	return got
}

// TestFleetCRDChart_HasEveryRecordedKind checks that an upgrade from Rancher Fleet deletes no CRD: that would delete all
// objects of the kind.
func TestFleetCRDChart_HasEveryRecordedKind(t *testing.T) {
	recorded, got := recordedCRDs(t), renderedCRDs(t)
	if diff := cmp.Diff(sortedKeys(recorded), sortedKeys(got)); diff != "" {
		t.Errorf("kinds (-recorded +rendered):\n%s", diff)
	}
	for name, crd := range got {
		policy, _, _ := unstructured.NestedString(crd.(map[string]any), "metadata", "annotations", "helm.sh/resource-policy") // empty where it is missing
		if policy != "keep" {
			t.Errorf("%s: uninstalling the chart would delete every object of the kind", name)
		}
	}
}

// TestUnimplementedKinds_KeepTheRecordedSchemas compares everything except the description, which says that the
// controllers do not act on the kind.
func TestUnimplementedKinds_KeepTheRecordedSchemas(t *testing.T) {
	recorded, got := recordedCRDs(t), renderedCRDs(t)
	for _, plural := range []string{"gitreporestrictions", "gitrepos", "helmops", "imagescans", "policies", "schedules"} {
		name := plural + ".fleet.cattle.io"
		crd := got[name].(map[string]any)
		version := crd["spec"].(map[string]any)["versions"].([]any)[0]
		root := version.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		if text, _ := root["description"].(string); !strings.Contains(strings.ReplaceAll(text, "\n", " "), "does not act on it") {
			t.Errorf("%s does not say that it is only stored: %q", name, text)
		}
		delete(root, "description")
		if diff := cmp.Diff(recorded[name].Object["spec"], crd["spec"]); diff != "" {
			t.Errorf("%s (-recorded +ours):\n%s", name, diff)
		}
	}
}

// recordedCRDs returns the complete recorded CRDs by name.
func recordedCRDs(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	folder := filepath.Join("..", "testdata", "recorded", "crds")
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		spec := map[string]any{}
		if err := yaml.Unmarshal(text, &spec); err != nil {
			t.Fatal(err)
		}
		spec["group"] = "fleet.cattle.io"
		name := strings.TrimSuffix(file.Name(), ".yaml") + ".fleet.cattle.io"
		found[name] = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name}, "spec": spec,
		}}
	}
	return found
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

func TestFleetCRDChart_HasNoCRDsFolder(t *testing.T) {
	if found := loadCRDs(t).CRDObjects(); len(found) != 0 {
		t.Errorf("%d files in a crds/ folder", len(found))
	}
}

func TestFleetCRDChart_RefusesValues(t *testing.T) {
	tests := map[string]struct {
		values map[string]any
		want   string
	}{
		"no values: accepted":                       {nil, ""},
		"global values of a parent chart: accepted": {map[string]any{"global": map[string]any{"cattle": "x"}}, ""},
		"value of the chart fleet: refused":         {map[string]any{"bootstrap": map[string]any{"enabled": true}}, "bootstrap"},
		"misspelt global: refused":                  {map[string]any{"Global": map[string]any{}}, "Global"},
		"global is not an object: refused":          {map[string]any{"global": "x"}, "global"},
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
