package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// packed returns a chart as "helm package" packs it.
func packed(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, f := range sortedFiles(bytesOf(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: "s/" + f.Name, Mode: 0o644, Size: int64(len(f.Data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(f.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPackedCharts_AreBounded is not parallel, because it measures allocations.
func TestPackedCharts_AreBounded(t *testing.T) {
	sub := map[string]string{"Chart.yaml": "apiVersion: v2\nname: s\nversion: 0.1.0\n", "templates/a.yaml": "kind: A\n"}
	inner := packed(t, deploytest.With(sub, map[string]string{"values.yaml": deploytest.ManyAliases("&")}))
	matryoshka := packed(t, sub)
	for range 12 {
		matryoshka = packed(t, deploytest.With(sub, map[string]string{"charts/s.tgz": matryoshka}))
	}
	large := map[string]string{}
	for i := range 18 {
		large["files/"+strings.Repeat("x", i+1)] = strings.Repeat("\x00", 4<<20)
	}
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"valid packed chart: is loaded":                 {map[string]string{"charts/s.tgz": packed(t, sub)}, ""},
		"not an archive: Helm returns the error":        {map[string]string{"charts/s.tgz": "x"}, "error unpacking subchart s.tgz"},
		"archive outside of charts/: is a plain file":   {map[string]string{"files/s.tgz": inner}, ""},
		"values with aliases: is refused":               {map[string]string{"charts/s.tgz": inner}, "charts/s.tgz/values.yaml: the YAML is too large"},
		"Chart.yaml with aliases: is refused":           {map[string]string{"charts/s.tgz": packed(t, map[string]string{"Chart.yaml": sub["Chart.yaml"] + deploytest.ManyAliases("&")})}, "charts/s.tgz/Chart.yaml: the YAML is too large"},
		"packed twice, values with aliases: is refused": {map[string]string{"charts/s.tgz": packed(t, deploytest.With(sub, map[string]string{"charts/i.tgz": inner}))}, "charts/s.tgz/charts/i.tgz/values.yaml: the YAML is too large"},
		"many values with aliases: is refused":          {map[string]string{"charts/a/values.yaml": someAliases(), "charts/a/Chart.yaml": sub["Chart.yaml"], "charts/b/values.yaml": someAliases(), "charts/b/Chart.yaml": sub["Chart.yaml"]}, "the YAML is too large"},
		"nested too deeply: is refused":                 {map[string]string{"charts/s.tgz": matryoshka}, "nested more than"},
		"too large in total: is refused":                {map[string]string{"charts/a.tgz": packed(t, deploytest.With(sub, large)), "charts/b.tgz": packed(t, deploytest.With(sub, large))}, "more than 128 MiB together"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			cost := deploytest.AllocatedBy(func() {
				_, err = packageOf(t, deploytest.With(deploytest.HelloFiles("hi"), test.files), fleet.BundleDeploymentOptions{})
			})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if cost > 600 {
				t.Errorf("it took %d MiB", cost)
			}
		})
	}
}

// someAliases expand to 20 MB.
func someAliases() string {
	return "a: &a \"" + strings.Repeat("x", 200_000) + "\"\nb: [" + strings.Repeat("*a,", 99) + "*a]\n"
}

func TestFilesOfABundle_AreBoundedTogether(t *testing.T) {
	large := content.Compress("a", make([]byte, 50<<20))
	var resources []fleet.BundleResource
	for _, name := range []string{"a", "b"} {
		resources = append(resources, fleet.BundleResource{Name: name, Content: large.Content, Encoding: large.Encoding})
	}
	if _, err := readFiles(resources); err != nil {
		t.Errorf("100 MiB: %v", err)
	}
	third := fleet.BundleResource{Name: "c", Content: large.Content, Encoding: large.Encoding}
	_, err := readFiles(append(slices.Clone(resources), third))
	if err == nil || outcome.ReasonOf(err) != conditions.ReasonBundleTooLarge || !strings.Contains(err.Error(), "together") {
		t.Errorf("150 MiB: %v", err)
	}
}

func bytesOf(files map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for name, text := range files {
		out[name] = []byte(text)
	}
	return out
}
