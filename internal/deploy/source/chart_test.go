package source

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// packageOf makes the chart of files with options.
func packageOf(t *testing.T, files map[string]string, options fleet.BundleDeploymentOptions) (*Package, error) {
	t.Helper()
	manifest := deploytest.ManifestOf(files)
	return New(Input{
		Name: "shop-web", ManifestID: "s-0123", Resources: manifest.Resources, Options: &options,
		Annotations: map[string]string{fleet.AnnotationBundleID: "shop-web"},
	})
}

// describeChart lists the content of a chart.
func describeChart(c *chart.Chart) string {
	var out strings.Builder
	fmt.Fprintf(&out, "chart %s %s %v\n", c.Metadata.Name, c.Metadata.Version, c.Metadata.Annotations)
	if len(c.Values) > 0 {
		fmt.Fprintf(&out, "values %v\n", c.Values)
	}
	for kind, files := range map[string][]*chart.File{"template": c.Templates, "file": c.Files} {
		_ = kind
		for _, f := range files {
			fmt.Fprintf(&out, "%s %s: %s\n", kind, f.Name, strings.ReplaceAll(string(f.Data), "\n", "⏎"))
		}
	}
	for _, d := range c.Dependencies() {
		out.WriteString("dependency " + describeChart(d))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// Editors on Windows write a byte order mark, which Helm ignores in charts that it reads itself.
func TestTemplateWithByteOrderMark_IsRead(t *testing.T) {
	p, err := packageOf(t, map[string]string{"Chart.yaml": "\ufeffapiVersion: v2\nname: web\nversion: 1.2.3\n", "templates/a.yaml": "\ufeffa: 1\n"}, fleet.BundleDeploymentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(p.Chart.Templates[0].Data); got != "a: 1\n" {
		t.Errorf("%q", got)
	}
}

func TestPackage(t *testing.T) {
	const chartYAML = "apiVersion: v2\nname: web\nversion: 1.2.3\n"
	external := ".chart/" + "c2e3a3a6e5f3b9bb53f8ff54b6a0fa4f7dcb5b7ac8d4d3e12a1c8a2b0c9d7e6f"
	tests := map[string]struct {
		files   map[string]string
		options fleet.BundleDeploymentOptions
	}{
		"a chart at the root": {files: map[string]string{
			"Chart.yaml": chartYAML, "values.yaml": "a: 1\n", "templates/a.yaml": "a", "templates/_helpers.tpl": "b", "fleet.yaml": "c", "README.md": "d"}},
		"a chart in a folder": {files: map[string]string{
			"web/Chart.yaml": chartYAML, "web/templates/a.yaml": "a", "other.yaml": "b"},
			options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "./web"}}},
		"a chart in a folder that no option names": {files: map[string]string{
			"web/Chart.yaml": chartYAML, "web/templates/a.yaml": "a", "other.yaml": "b"}},
		"a chart that contains another chart": {files: map[string]string{
			"Chart.yaml": chartYAML, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 0.0.1\n", "charts/db/templates/x.yaml": "x"}},
		"a chart that was fetched for the bundle": {files: map[string]string{
			externalFolder("web", "https://charts.example.com", "1.2.3") + "/web/Chart.yaml":       chartYAML,
			externalFolder("web", "https://charts.example.com", "1.2.3") + "/web/templates/a.yaml": "a",
			external + "/web/Chart.yaml": "another"},
			options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "web", Repo: "https://charts.example.com", Version: "1.2.3"}}},
		"a chart by its address": {files: map[string]string{
			externalFolder("oci://r.example.com/web", "", "") + "/Chart.yaml": chartYAML,
			externalFolder("oci://r.example.com/web", "", "") + "/a.txt":      "a"},
			options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "oci://r.example.com/web"}}},
		"plain YAML":                {files: map[string]string{"a.yaml": "a", "b.yml": "b", "c.json": "{}", "d.txt": "d", "fleet.yaml": "e", "deep/er/f.yaml": "f"}},
		"plain YAML with templates": {files: map[string]string{"templates/a.yaml": "a", "templates/_helpers.tpl": "b", "c.yaml": "c"}},
		"plain YAML beside other bundles and charts": {files: map[string]string{
			"a.yaml": "a", "nested/fleet.yaml": "x", "nested/b.yaml": "b", "nested/deep/c.yaml": "c", "chart/Chart.yaml": "y", "chart/d.yaml": "d", "nestedly.yaml": "e"}},
		"overlays": {files: map[string]string{
			"a.yaml": "a: base", "b.yaml": "b: base", "overlays/dev/a.yaml": "a: dev", "overlays/dev/c.yaml": "c: dev", "overlays/prod/a.yaml": "a: prod", "overlays/prod/x/d.yaml": "d: prod"},
			options: fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: []string{"dev", "prod"}}}},
		"overlays that no option names": {files: map[string]string{"a.yaml": "a: base", "overlays/dev/a.yaml": "a: dev"}},
		"an overlay that does not exist": {files: map[string]string{"a.yaml": "a: base"},
			options: fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: []string{"dev"}}}},
		"patches": {files: map[string]string{
			"dep.yaml":                         "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}}\n",
			"cr.yaml":                          "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {list: [1, 2], keep: 12345678901234567}\n",
			"cm.yaml":                          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n",
			"overlays/dev/dep_patch.yaml":      "spec: {template: {spec: {containers: [{name: b, image: z}]}}}\n",
			"overlays/dev/cr_patch.yaml":       "spec: {list: [3]}\n",
			"overlays/dev/cm_patch.yaml":       `[{"op": "replace", "path": "/data/a", "value": "c"}]`,
			"overlays/dev/new.yaml":            "apiVersion: v1\nkind: Secret\nmetadata: {name: new}\n",
			"overlays/dev/new_patch.yaml":      "type: Opaque\n",
			"overlays/dev/deep/x_y_z_new.yaml": "a: b",
		}, options: fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: []string{"dev"}}}},
		"a kustomization": {files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "a"}},
		"a kustomization in a folder": {files: map[string]string{"k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": "a"},
			options: fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "k"}}},
		"a chart that is kustomized": {files: map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": "a", "kustomization.yaml": "namePrefix: x-\n"}},
		"nothing":                    {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := packageOf(t, test.files, test.options)
			if err != nil {
				t.Fatal(err)
			}
			deploytest.ExpectGolden(t, fmt.Sprintf("style %+v\n%s", p.Style, describeChart(p.Chart)))
		})
	}
}

func externalFolder(chart, repo, version string) string {
	_, folder, err := chartPaths(&fleet.HelmOptions{Chart: chart, Repo: repo, Version: version})
	if err != nil {
		panic(err)
	}
	return folder
}

func TestExternalChart_FolderIsHashOfItsSource(t *testing.T) {
	const want = ".chart/d55302aaed762b6e552ebbd06be1aea978c50d8b07917dfb2a3cff7007ba1671"
	if got := externalFolder("web", "https://charts.example.com", "1.2.3"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInvalidBundle_CannotBePackaged(t *testing.T) {
	tests := map[string]struct {
		files   map[string]string
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"Chart.yaml is not YAML":                         {files: map[string]string{"Chart.yaml": "a: b: c"}, want: "loading the chart: cannot load Chart.yaml"},
		"a chart without a name":                         {files: map[string]string{"Chart.yaml": "apiVersion: v2\nversion: 1.0.0\n"}, want: "chart.metadata.name is required"},
		"values are not YAML":                            {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n", "values.yaml": "a: b: c"}, want: "cannot load values.yaml"},
		"values with too many aliases":                   {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n", "values.yaml": deploytest.AliasBomb()}, want: "loading the chart: values.yaml: " + deploytest.TooManyAliases},
		"a patch with too many aliases":                  {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML, "overlays/a/x_patch.yaml": deploytest.AliasBomb()}, options: overlay("a"), want: "YAML parse error: " + deploytest.TooManyAliases},
		"patch of a missing file":                        {files: map[string]string{"overlays/a/x_patch.yaml": "a: b"}, options: overlay("a"), want: "x_patch.yaml patches x.yaml, which does not exist"},
		"a patch of a file with two objects":             {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML + "---\n" + deploytest.ConfigMapYAML, "overlays/a/x_patch.yaml": "a: b"}, options: overlay("a"), want: "the file contains 2 objects"},
		"a patch of a file without a kind":               {files: map[string]string{"x.yaml": "a: b\n", "overlays/a/x_patch.yaml": "a: c"}, options: overlay("a"), want: "without a kind"},
		"patch is not YAML":                              {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML, "overlays/a/x_patch.yaml": "a: b: c"}, options: overlay("a"), want: "YAML parse error"},
		"invalid JSON patch":                             {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML, "overlays/a/x_patch.yaml": "[{op: test, path: /data/a, value: z}]"}, options: overlay("a"), want: "patching x.yaml with x_patch.yaml"},
		"overlay leads out of the bundle":                {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML}, options: overlay("../../x"), want: "leads out of the bundle"},
		"chart's folder leads out of the bundle":         {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML}, options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "../x"}}, want: "leads out of the bundle"},
		"chart's folder does not exist":                  {files: map[string]string{"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n"}, options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "wbe"}}, want: `helm.chart is "wbe", but the bundle has no file wbe/Chart.yaml`},
		"chart of a repository is not in the bundle":     {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML}, options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "web", Repo: "https://charts.example.com"}}, want: `does not contain the chart "web"`},
		"chart with an address is not in the bundle":     {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML}, options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "oci://r.example.com/web"}}, want: `does not contain the chart "oci://r.example.com/web"`},
		"repository without a chart":                     {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML}, options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Repo: "https://charts.example.com"}}, want: `does not contain the chart "https://charts.example.com"`},
		"kustomization's folder does not exist":          {files: map[string]string{"overlays/prod/kustomization.yaml": ""}, options: fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "overlays/prd"}}, want: `kustomize.dir is "overlays/prd", but the bundle has no file overlays/prd/kustomization.yaml`},
		"kustomization's folder leads out of the bundle": {files: map[string]string{"x.yaml": deploytest.ConfigMapYAML}, options: fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "a/../../b"}}, want: "leads out of the bundle"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := packageOf(t, test.files, test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func overlay(names ...string) fleet.BundleDeploymentOptions {
	return fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: names}}
}

func TestReadFiles(t *testing.T) {
	zipped := content.Compress("c.yaml", []byte("c"))
	files, err := readFiles([]fleet.BundleResource{
		{Name: "./a.yaml", Content: "a"}, {Content: "unnamed"}, {Name: "/b//b.yaml", Content: base64.StdEncoding.EncodeToString([]byte("b")), Encoding: "base64"},
		zipped, {Name: "a.yaml", Content: "again"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []file{{"a.yaml", []byte("again")}, {"manifests/file001.yaml", []byte("unnamed")}, {"b/b.yaml", []byte("b")}, {"c.yaml", []byte("c")}}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
	if _, err := readFiles([]fleet.BundleResource{{Name: "a", Content: "a", Encoding: "rot13"}}); !errors.Is(err, content.ErrUnknownEncoding) {
		t.Errorf("an unknown encoding: %v", err)
	}
}

func TestCleanPath(t *testing.T) {
	tests := map[string]string{
		"a": "a", "./a": "a", "/a": "a", "a//b": "a/b", "a/./b/": "a/b", "a b/ü.yaml": "a b/ü.yaml", "..a/b..": "..a/b..",
		"": "", ".": "", "/": "", "..": "", "../a": "", "a/../b": "", "a/..": "", `a\b`: "", `..\a`: "", "c:/a": "", "C:a": "", "a\x00b": "", "a\nb": "",
	}
	for name, want := range tests {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			got, err := cleanPath(name)
			if got != want || (err == nil) != (want != "") {
				t.Errorf("got %q %v, want %q", got, err, want)
			}
			if err != nil && !errors.Is(err, ErrPathEscapes) {
				t.Errorf("another error: %v", err)
			}
		})
	}
}

func TestGeneratedChart_IsVersionedByContentOrCommit(t *testing.T) {
	tests := map[string]struct{ commit, want string }{
		"no commit":                      {"", "v0.0.0+s-0123"},
		"a commit":                       {"0123456789abcdef", "v0.0.0+git-0123456789ab"},
		"a short commit":                 {"0123456789ab", "v0.0.0+s-0123"},
		"commit with invalid characters": {"0123_56789abcdef", "v0.0.0+s-0123"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := New(Input{Name: "n", ManifestID: "s-0123", Commit: test.commit, Options: &fleet.BundleDeploymentOptions{}})
			if err != nil || p.Chart.Metadata.Version != test.want || p.Chart.Metadata.Name != "n" {
				t.Errorf("got %v %v, want %s", p, err, test.want)
			}
		})
	}
}

func TestChartAnnotations(t *testing.T) {
	bd := deploytest.Deployment(func(bd *fleet.BundleDeployment) {
		bd.Labels[fleet.LabelCommit] = "abc"
		bd.Spec.Options.ServiceAccount = "tenant"
		bd.Spec.Options.KeepResources = true
	})
	want := map[string]string{
		"fleet.cattle.io/bundle-id": "hello", "fleet.cattle.io/agent-namespace": "cattle-fleet-system",
		"fleet.cattle.io/service-account": "tenant", "fleet.cattle.io/keep-resources": "true", "fleet.cattle.io/commit": "abc",
		"fleet.cattle.io/deployment-id": "s-1:a",
	}
	if diff := cmp.Diff(want, ChartAnnotations(bd, "cattle-fleet-system")); diff != "" {
		t.Error(diff)
	}
	want = map[string]string{
		"fleet.cattle.io/bundle-id": "hello", "fleet.cattle.io/agent-namespace": "cattle-fleet-system",
		"fleet.cattle.io/service-account": "", "fleet.cattle.io/keep-resources": "false",
		"fleet.cattle.io/deployment-id": "s-1:a",
	}
	if diff := cmp.Diff(want, ChartAnnotations(deploytest.Deployment(), "cattle-fleet-system")); diff != "" {
		t.Error(diff)
	}
}

// ClusterScoped are the kinds that tests treat as cluster-scoped.
func namespacedKind(gvk schema.GroupVersionKind) (bool, error) {
	switch gvk.Kind {
	case "Unknown":
		return false, errors.New("no matches for kind")
	case "Namespace", "ClusterRole", "CustomResourceDefinition":
		return false, nil
	}
	return true, nil
}

// A template makes null of an empty value. The API server reads it as an empty map, or as an empty text in a map.
const nullMetadata = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: null, labels: {x: null, b: z}}\n" +
	"---\napiVersion: v1\nkind: Secret\nmetadata: {name: b, annotations: {checksum/x: }, labels: }\n"

func TestPostRenderer(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a, annotations: {mine: kept}}\n"
	tests := map[string]struct {
		rendered string
		files    map[string]string
		change   func(*PostRenderer)
	}{
		"objects are marked and sorted": {rendered: "---\n# Source: a\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, labels: {mine: kept}}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\n" +
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: c}\n---\napiVersion: x.io/v1\nkind: B\nmetadata: {name: d}\n---\napiVersion: x.io/v1\nkind: A\nmetadata: {name: e}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n"},
		"a list becomes its items":                      {rendered: "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: SecretList, items: [{apiVersion: v1, kind: Secret, metadata: {name: b}}]}]\n"},
		"comments and empty documents are left out":     {rendered: "---\n# nothing\n---\n\n---\nnull\n---\n{}\n--- # a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"},
		"numbers keep their digits":                     {rendered: "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nspec: {big: 9007199254740993, float: 1.5, text: '1'}\n"},
		"a document that begins with a brace":           {rendered: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"},
		"CRDs are kept when the release is uninstalled": {rendered: crd},
		"CRDs are deleted with deleteCRDResources":      {rendered: crd, change: func(f *PostRenderer) { f.DeleteCRDs = true }},
		"all objects are moved to the target namespace": {rendered: deploytest.ConfigMapYAML + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: elsewhere}\n", change: func(f *PostRenderer) { f.TargetNamespace = "web" }},
		"plain YAML is added":                           {rendered: "---\n# Source: x\n" + deploytest.ConfigMapYAML, files: map[string]string{"a.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\njust: a document\n", "b.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}`}},
		"a kustomization builds on the rendered objects": {rendered: deploytest.ConfigMapYAML, files: map[string]string{
			"kustomization.yaml": "namePrefix: k-\nresources: [a.yaml]\n", "a.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", "unused.yaml": deploytest.ConfigMapYAML}},
		"a kustomization without rendered objects": {files: map[string]string{
			"k/kustomization.yaml": "namespace: web\nresources: [../base]\n", "base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": deploytest.ConfigMapYAML},
			change: func(f *PostRenderer) { f.Package.Style.Kustomization = "k/kustomization.yaml" }},
		"null is empty": {rendered: nullMetadata},
		"null is empty in a kustomization": {rendered: nullMetadata, files: map[string]string{
			"kustomization.yaml": "namePrefix: k-\nlabels: [{pairs: {k: v}}]\nresources: [a.yaml]\n", "a.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {x: }, labels: null}\n"}},
		"nothing": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := finish(t, test.rendered, test.files, test.change)
			if err != nil {
				t.Fatal(err)
			}
			deploytest.ExpectGolden(t, got)
		})
	}
}

// A kustomization is found under each file name that kustomize accepts.
func TestEachKustomizationFileName_IsBuilt(t *testing.T) {
	files := func(names ...string) map[string]string {
		found := map[string]string{"k/a.yaml": deploytest.ConfigMapYAML}
		for _, name := range names {
			found["k/"+name] = "namePrefix: k-\nresources: [a.yaml]\n"
		}
		return found
	}
	build := func(files map[string]string) (string, error) {
		p, err := packageOf(t, files, fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "./k/"}})
		if err != nil {
			return "", err
		}
		f := &PostRenderer{Package: p, Set: placement.SetOf("hello", "")}
		out, err := f.Run(bytes.NewBufferString("apiVersion: v1\nkind: Service\nmetadata: {name: rendered}\n"))
		return fmt.Sprint(out), err
	}
	want, err := build(files("kustomization.yaml"))
	if err != nil || strings.Count(want, "name: k-") != 2 {
		t.Fatalf("error %v, objects\n%s", err, want)
	}
	for _, name := range []string{"kustomization.yml", "Kustomization"} {
		got, err := build(files(name))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := build(files("kustomization.yaml", "Kustomization")); outcome.ReasonOf(err) != conditions.ReasonRenderingFailed || !strings.Contains(err.Error(), "multiple kustomization files") {
		t.Errorf("two of them: %v", err)
	}
}

// finish runs the post-renderer over rendered and files.
func finish(t *testing.T, rendered string, files map[string]string, change func(*PostRenderer)) (got string, err error) {
	t.Helper()
	p, err := packageOf(t, files, fleet.BundleDeploymentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := &PostRenderer{Package: p, Set: placement.SetOf("hello", ""), Namespaced: namespacedKind}
	if change != nil {
		change(f)
	}
	out, err := f.Run(bytes.NewBufferString(rendered))
	if err != nil {
		return "", err
	}
	return out.String(), nil
}

func TestInvalidRenderedObject_IsRefused(t *testing.T) {
	target := func(f *PostRenderer) { f.TargetNamespace = "web" }
	tests := map[string]struct {
		rendered string
		files    map[string]string
		change   func(*PostRenderer)
		want     string
	}{
		"not YAML":          {rendered: "a: b: c", want: "YAML parse error in document 1"},
		"not an object":     {rendered: "- a", want: "YAML parse error in document 1: the document is not an object"},
		"invalid separator": {rendered: "a: b\n--- c: d\n", want: "YAML parse error"},
		"List with an item that is not an object": {rendered: "kind: List\napiVersion: v1\nitems: [1]", want: "an item of a List is not an object"},
		"labels that are not strings":             {rendered: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: 1}}", want: "metadata.labels of ConfigMap \"a\": every value has to be a string"},
		"annotations that are not strings":        {rendered: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {a: true}}", want: "metadata.annotations of ConfigMap"},
		"a cluster-scoped object":                 {rendered: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}", change: target, want: "invalid cluster scoped object [name=a kind=Namespace apiVersion=v1]"},
		"an unknown kind":                         {rendered: "apiVersion: v1\nkind: Unknown\nmetadata: {name: a}", change: target, want: "no matches for kind"},
		"invalid plain YAML":                      {files: map[string]string{"x.yaml": "a: b: c"}, want: "x.yaml: YAML parse error"},
		"kustomization is not YAML":               {rendered: deploytest.ConfigMapYAML, files: map[string]string{"kustomization.yaml": "a: b: c"}, want: "YAML parse error in kustomization.yaml"},
		"a kustomization of a missing file":       {files: map[string]string{"kustomization.yaml": "resources: [gone.yaml]"}, want: "kustomize: accumulating resources"},
		"an object with too many aliases":         {rendered: deploytest.AliasBomb(), want: "YAML parse error in document 1: " + deploytest.TooManyAliases},
		"a resource with too many aliases":        {files: map[string]string{"kustomization.yaml": "resources: [x.yaml]", "x.yaml": deploytest.AliasBomb()}, want: "kustomize: x.yaml: " + deploytest.TooManyAliases},
		"kustomization leads out of the bundle":   {files: map[string]string{"k/kustomization.yaml": "resources: [../a.yaml]", "a.yaml": deploytest.ConfigMapYAML}, change: func(f *PostRenderer) { f.Package.Style.Kustomization = "k/kustomization.yaml" }, want: "is not in or below"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := finish(t, test.rendered, test.files, test.change)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzPackage(f *testing.F) {
	f.Add("a.yaml", "a: b", "", "", "dev")
	f.Add("../../etc/passwd", "", "web", "k", "..")
	f.Add("overlays/dev/a_patch.yaml", "[{\"op\":\"add\"}]", "../..", "/", "dev")
	f.Add("Chart.yaml", "apiVersion: v2\nname: ../x\nversion: 1.0.0\n", ".", ".", "")
	f.Add(`..\..\a.yaml`, "{", "c:/", "", "")
	f.Add("charts/x.tgz", "\x1f\x8b\x08", "", "", "")
	f.Add(".chart/../a/Chart.yaml", "", "oci://x", "a/..", "")
	f.Fuzz(func(t *testing.T, name, text, chartDir, kustomizeDir, overlayName string) {
		options := fleet.BundleDeploymentOptions{
			Helm: &fleet.HelmOptions{Chart: chartDir}, Kustomize: &fleet.KustomizeOptions{Dir: kustomizeDir},
			YAML: &fleet.YAMLOptions{Overlays: []string{overlayName}},
		}
		p, err := New(Input{Name: "n", ManifestID: "s-1", Options: &options, Resources: []fleet.BundleResource{
			{Name: "a.yaml", Content: deploytest.ConfigMapYAML}, {Name: name, Content: text}, {Name: "x/" + name, Content: text, Encoding: "base64"},
		}})
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, f := range p.Files {
			names[f.Name] = true
		}
		for _, f := range append(p.Chart.Templates, p.Chart.Files...) {
			names[f.Name] = true
		}
		for _, found := range slices.Sorted(maps.Keys(names)) {
			if clean, err := cleanPath(found); err != nil || clean != found {
				t.Errorf("%q made a file named %q", name, found)
			}
		}
	})
}

func TestCheckDependencies(t *testing.T) {
	const missing = `dependency "db" is found in Chart.yaml, but missing in charts/ directory`
	tests := map[string]struct {
		dependency    string // as in Chart.yaml
		files         map[string]string
		values        map[string]any
		updateDisable bool
		want          string
	}{
		"missing: refused":                             {dependency: "{name: db, version: 1.0.0}", want: missing},
		"in charts/: deployed":                         {dependency: "{name: db, version: 1.0.0}", files: map[string]string{"charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n"}},
		"in charts/ with an alias: deployed":           {dependency: "{name: db, version: 1.0.0, alias: store}", files: map[string]string{"charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n"}},
		"in another version: deployed as Helm does":    {dependency: "{name: db, version: 2.0.0}", files: map[string]string{"charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n"}},
		"disabled by the chart: deployed":              {dependency: "{name: db, version: 1.0.0, condition: db.enabled}", files: map[string]string{"values.yaml": "db: {enabled: false}\n"}},
		"enabled by the values of the bundle: refused": {dependency: "{name: db, version: 1.0.0, condition: db.enabled}", files: map[string]string{"values.yaml": "db: {enabled: false}\n"}, values: map[string]any{"db": map[string]any{"enabled": true}}, want: missing},
		"disabled by a tag: deployed":                  {dependency: "{name: db, version: 1.0.0, tags: [data]}", values: map[string]any{"tags": map[string]any{"data": false}}},
		"update of dependencies disabled: deployed":    {dependency: "{name: db, version: 1.0.0}", updateDisable: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := deploytest.With(map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2.3\ndependencies: [" + test.dependency + "]\n"}, test.files)
			p, err := packageOf(t, files, fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{DisableDependencyUpdate: test.updateDisable}})
			if err != nil {
				t.Fatal(err)
			}
			if err := chartutil.ProcessDependenciesWithMerge(p.Chart, test.values); err != nil {
				t.Fatal(err)
			}
			if err := p.CheckDependencies(); err == nil && test.want != "" || err != nil && (test.want == "" || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
