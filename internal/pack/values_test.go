package pack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestValuesFiles_AreMergedInOrder(t *testing.T) {
	dir := folder(t, map[string]string{
		"app/a.yaml": "m: {x: 1, z: 1}\nl: [1, 2]\nk: 1\nbig: 9007199254740993\n", "app/b.yaml": "m: {z: 2}\nl: [3]\nk: null\n", "up.yaml": "up: true\n",
		"app/empty.yaml": "",
	})
	for name, test := range map[string]struct {
		text string
		want map[string]any // of the root
	}{
		"files": {
			"helm: {chart: c, valuesFiles: [a.yaml, b.yaml]}",
			map[string]any{"m": map[string]any{"x": 1.0, "z": 2.0}, "l": []any{3.0}, "k": nil, "big": 9007199254740992.0},
		},
		"files win over values":              {"helm: {repo: r, values: {k: own, m: {w: 0}}, valuesFiles: [b.yaml]}", map[string]any{"k": nil, "l": []any{3.0}, "m": map[string]any{"z": 2.0, "w": 0.0}}},
		"file of the folder above":           {"helm: {chart: c, valuesFiles: [../up.yaml]}", map[string]any{"up": true}},
		"empty file":                         {"helm: {chart: c, valuesFiles: [empty.yaml]}", map[string]any{}},
		"files are not read without a chart": {"helm: {values: {k: own}, valuesFiles: [gone.yaml]}", map[string]any{"k": "own"}},
		"numbers are floating point":         {"helm: {values: {k: 3, l: [4, {m: 5}]}}", map[string]any{"k": 3.0, "l": []any{4.0, map[string]any{"m": 5.0}}}},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := parseOptions([]byte(test.text))
			if err == nil {
				err = mergeValues(dir+"/app", dir, &doc.BundleSpec)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, doc.Helm.Values.Data); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesFilesOfTargets_AreReadWithoutChart(t *testing.T) {
	dir := folder(t, map[string]string{"t.yaml": "b: 2\n"})
	spec := &fleet.BundleSpec{Targets: []fleet.BundleTarget{{}, {BundleDeploymentOptions: fleet.BundleDeploymentOptions{
		Helm: &fleet.HelmOptions{ValuesFiles: []string{"t.yaml"}},
	}}}}
	if err := mergeValues(dir, dir, spec); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"b": 2.0}, spec.Targets[1].Helm.Values.Data); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if got := valuesFiles(spec); len(got) != 1 || got[0] != "t.yaml" {
		t.Errorf("values files %v", got)
	}
}

func TestInvalidValuesFile_IsRefused(t *testing.T) {
	dir := folder(t, map[string]string{"list.yaml": "[hunter2]", "broken.yaml": "a: b: hunter2", "bomb.yaml": "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + growing(), "sub/x": ""})
	for name, want := range map[string]string{
		"gone.yaml": "no such file", "list.yaml": "cannot unmarshal array", "broken.yaml": "mapping values are not allowed", "bomb.yaml": "too large",
		"sub": "is a directory",
	} {
		t.Run(name, func(t *testing.T) {
			spec := &fleet.BundleSpec{}
			spec.Helm = &fleet.HelmOptions{Chart: "c", ValuesFiles: []string{name}}
			err := mergeValues(dir, dir, spec)
			if err == nil || !strings.Contains(err.Error(), "reading values file: "+dir+"/"+name) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v, want one with %q", err, want)
			}
		})
	}
}
