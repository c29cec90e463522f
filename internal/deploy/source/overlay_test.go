package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// doubling is a JSON patch, each of whose operations doubles the data of an object.
func doubling(copies int) string {
	operations := []string{`{"op": "add", "path": "/data", "value": {"a": "` + strings.Repeat("x", 1000) + `"}}`}
	for i := range copies {
		operations = append(operations, fmt.Sprintf(`{"op": "copy", "from": "/data", "path": "/data/k%d"}`, i))
	}
	return "[" + strings.Join(operations, ",") + "]"
}

func TestPatchThatCopies_IsBounded(t *testing.T) {
	const base = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	overlay := func(copies int) error {
		files := map[string]string{"a.yaml": base, "overlays/o/a_patch.yaml": doubling(copies)}
		_, err := packageOf(t, files, fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: []string{"o"}}})
		return err
	}
	kustomization := func(copies int) error {
		files := map[string]string{
			"a.yaml": base, "p.yaml": doubling(copies),
			"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml, target: {kind: ConfigMap}}]\n",
		}
		p, err := packageOf(t, files, fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{}})
		if err == nil {
			_, err = kustomize(p, nil)
		}
		return err
	}
	tests := map[string]struct {
		build  func(copies int) error
		copies int
		want   string
	}{
		"overlay, few copies: allowed":        {overlay, 5, ""},
		"overlay, many copies: refused":       {overlay, 18, "accumulated size increase of copy"},
		"kustomization, few copies: allowed":  {kustomization, 5, ""},
		"kustomization, many copies: refused": {kustomization, 14, "accumulated size increase of copy"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			cost := deploytest.AllocatedBy(func() { err = test.build(test.copies) })
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %.300v, want %q", err, test.want)
			}
			if cost > 100 {
				t.Errorf("it took %d MiB", cost)
			}
		})
	}
}

func TestFileThatOverlaysGrow_IsBounded(t *testing.T) {
	files := map[string]string{
		"a.yaml":                  "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\nlist: [" + strings.Repeat("x", 1<<20) + "]\n",
		"overlays/o/a_patch.yaml": `[{"op": "copy", "from": "/list/0", "path": "/list/-"}]`,
	}
	for overlays, want := range map[int]string{2: "", 4: "the result has more than 4 MiB"} {
		options := fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: slices.Repeat([]string{"o"}, overlays)}}
		_, err := packageOf(t, files, options)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d overlays: got %.300v, want %q", overlays, err, want)
		}
	}
}

func TestOverlaysNamedRepeatedly_AreBoundedTogether(t *testing.T) {
	files := map[string]string{
		"a.yaml":                  "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\ntext: " + strings.Repeat("x", 3<<20) + "\n",
		"overlays/o/a_patch.yaml": `[{"op": "add", "path": "/more", "value": 1}]`, "overlays/plain/b.yaml": "kind: B\n",
	}
	const tooMuch = "the overlays patch more than 32 MiB"
	for name, test := range map[string]struct {
		overlay string
		times   int
		want    string
	}{
		"few patches of a large file: allowed":  {"o", 3, ""},
		"many patches of a large file: refused": {"o", 12, tooMuch},
		"plain files: allowed":                  {"plain", 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			options := fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: slices.Repeat([]string{test.overlay}, test.times)}}
			_, err := packageOf(t, files, options)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %.300v, want %q", err, test.want)
			}
		})
	}
}
