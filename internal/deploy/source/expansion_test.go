package source

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
)

// nested returns directories with the given fields. NEXT is the directory after each; the last one lists a missing directory.
func nested(levels int, fields string) map[string]string {
	files := map[string]string{"kustomization.yaml": "resources: [level1]\n"}
	if strings.Contains(fields, "Component") {
		files["kustomization.yaml"] = "components: [level1]\n"
	}
	for i := 1; i < levels; i++ {
		files[fmt.Sprintf("level%d/kustomization.yaml", i)] = strings.ReplaceAll(fields, "NEXT", fmt.Sprintf("../level%d", i+1))
	}
	files[fmt.Sprintf("level%d/kustomization.yaml", levels)] = strings.ReplaceAll(fields, "NEXT", "missing")
	return files
}

func TestKustomizationThatExpands_IsRefused(t *testing.T) {
	const (
		tooLarge  = `the kustomization of directory "`
		component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	)
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"directories listed twice":        {nested(18, "resources: [NEXT, NEXT]\n"), tooLarge},
		"components listed twice":         {nested(18, component+"components: [NEXT, NEXT]\n"), tooLarge},
		"generators and transformers":     {nested(18, "generators: [NEXT]\ntransformers: [NEXT]\n"), tooLarge},
		"former and differently written":  {nested(18, "bases: [NEXT]\nRESOURCES: [NEXT]\n"), tooLarge},
		"components in too many levels":   {nested(40, component+"components: [NEXT]\n"), "20 levels of directories"},
		"many levels of components":       {nested(15, component+"components: [NEXT]\n"), "missing"},
		"a file listed by many":           {map[string]string{"kustomization.yaml": "resources: [" + strings.Repeat("a,", 40) + "]\n", "a/kustomization.yaml": "configMapGenerator: [{name: a, files: [a=large]}]\n", "a/large": strings.Repeat("#", 1<<20)}, "or 32 MiB"},
		"a directory that lists itself":   {map[string]string{"kustomization.yaml": "resources: [a]\n", "a/kustomization.yaml": "resources: [../a]\n"}, `directory "a" includes itself`},
		"directories that list the other": {map[string]string{"kustomization.yaml": "resources: [a]\n", "a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "components: [../a]\n"}, `directory "a" includes itself`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := kustomizeFiles(test.files)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %.300v, want %q", err, test.want)
			}
		})
	}
}

func TestKustomizationOfManyDirectories_IsBuilt(t *testing.T) {
	files, list := map[string]string{}, ""
	for i := range 200 {
		list += fmt.Sprintf("- app%d\n", i)
		files[fmt.Sprintf("app%d/kustomization.yaml", i)] = fmt.Sprintf("nameSuffix: \"-%d\"\nresources: [../base]\n", i)
	}
	files["kustomization.yaml"] = "resources:\n" + list
	files["base/kustomization.yaml"] = "namespace: base\nresources: [a.yaml]\n"
	files["base/a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	if text, err := kustomizeFiles(files); err != nil || !strings.Contains(text, "name: a-199") {
		t.Errorf("%.300s, error %v", text, err)
	}
}

func TestKustomization_IsBuiltWithinTheLimit(t *testing.T) {
	p := &Package{Style: style{Kustomization: "kustomization.yaml"}, Files: []file{{Name: "kustomization.yaml", Data: []byte("namePrefix: a-\n")}}}
	tooLong := errors.New("has not ended")
	limit := func(func() error) error { return tooLong }
	if _, err := (&PostRenderer{Package: p, Limit: limit}).Run(&bytes.Buffer{}); !errors.Is(err, tooLong) {
		t.Errorf("without a chart: error %v", err)
	}
	p.Style.Chart = "Chart.yaml"
	if _, err := (&PostRenderer{Package: p, Limit: limit}).FinishHooks(&release.Release{}); !errors.Is(err, tooLong) {
		t.Errorf("with a chart: error %v", err)
	}
}
