package source

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// object returns a ConfigMap with a Helm hook annotation, or without one.
func object(name, hook string) string {
	if hook != "" {
		hook = ", annotations: {helm.sh/hook: '" + hook + "', helm.sh/hook-weight: '3'}"
	}
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + hook + "}\n---\n"
}

func TestHooksThatAreNotTemplates_AreSeparated(t *testing.T) {
	all := object("a", "") + object("b", "pre-install,post-upgrade") + object("c", "unknown") + object("d", "test")
	raw := func(c *chart.Chart) *chart.Chart {
		c.Files = append(c.Files, &chart.File{Name: rawFolder + "all.yaml", Data: []byte(all)})
		return c
	}
	folder := []file{{Name: "kustomization.yaml", Data: []byte("resources: [all.yaml]\n")}, {Name: "all.yaml", Data: []byte(all)}}
	for name, p := range map[string]*Package{
		"plain YAML":                 {Chart: raw(&chart.Chart{})},
		"kustomization":              {Chart: &chart.Chart{}, Style: style{Kustomization: "kustomization.yaml"}, Files: folder},
		"kustomization with a chart": {Chart: &chart.Chart{}, Style: style{Kustomization: "kustomization.yaml", Chart: "Chart.yaml"}, Files: folder},
	} {
		t.Run(name, func(t *testing.T) {
			f := &PostRenderer{Package: p, Set: placement.Set{ID: "i", Hash: "h"}}
			r, text := &release.Release{}, &bytes.Buffer{}
			for again := true; again; {
				var err error
				if text, err = f.Run(&bytes.Buffer{}); err != nil {
					t.Fatal(err)
				}
				if again, err = f.FinishHooks(r); err != nil {
					t.Fatal(err)
				}
			}
			objects, err := manifest.Parse(text.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, object := range objects {
				got = append(got, object.GetName())
			}
			for _, hook := range r.Hooks {
				parsed, err := manifest.Parse([]byte(hook.Manifest))
				if err != nil {
					t.Fatal(err)
				}
				if hook.Weight != 3 || hook.Name != parsed[0].GetName() || parsed[0].GetLabels()["objectset.rio.cattle.io/hash"] != "h" {
					t.Errorf("hook %s of weight %d: %v", hook.Name, hook.Weight, parsed[0])
				}
				for _, event := range hook.Events {
					got = append(got, hook.Path+" "+string(event))
				}
			}
			if diff := cmp.Diff([]string{"a", "c", "configmap/b pre-install", "configmap/b post-upgrade", "configmap/d test"}, got); diff != "" {
				t.Errorf("objects and hooks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHookWithNullLabels_IsFinished(t *testing.T) {
	folder := []file{{Name: "kustomization.yaml", Data: []byte("labels: [{pairs: {k: v}}]\n")}}
	for name, test := range map[string]struct {
		p      *Package
		labels map[string]string
	}{
		"chart":                      {&Package{Chart: &chart.Chart{}}, map[string]string{}},
		"kustomization with a chart": {&Package{Chart: &chart.Chart{}, Style: style{Kustomization: "kustomization.yaml", Chart: "Chart.yaml"}, Files: folder}, map[string]string{"k": "v"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &PostRenderer{Package: test.p, Set: placement.Set{ID: "i", Hash: "h"}}
			hook := func(name, labels string) *release.Hook {
				return &release.Hook{Path: name, Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {helm.sh/hook: pre-install, checksum/x: }, labels: " + labels + "}\n"}
			}
			r := &release.Release{Hooks: []*release.Hook{hook("a", "null"), hook("b", "{x: null}")}}
			for again := true; again; {
				if _, err := f.Run(&bytes.Buffer{}); err != nil {
					t.Fatal(err)
				}
				var err error
				if again, err = f.FinishHooks(r); err != nil {
					t.Fatal(err)
				}
			}
			test.labels["objectset.rio.cattle.io/hash"] = "h"
			for i, want := range []map[string]string{test.labels, deploytest.With(test.labels, map[string]string{"x": ""})} {
				parsed, err := manifest.Parse([]byte(r.Hooks[i].Manifest))
				if err != nil {
					t.Fatal(err)
				}
				annotations := map[string]string{"helm.sh/hook": "pre-install", "checksum/x": "", "objectset.rio.cattle.io/id": "i"}
				if diff := cmp.Diff([]map[string]string{want, annotations}, []map[string]string{parsed[0].GetLabels(), parsed[0].GetAnnotations()}); diff != "" {
					t.Errorf("labels and annotations of hook %d (-want +got):\n%s", i, diff)
				}
				if text := r.Hooks[i].Manifest; strings.Contains(text, "null") {
					t.Errorf("hook %d:\n%s", i, text)
				}
			}
		})
	}
}
