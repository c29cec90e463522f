package source

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
)

// customSchema describes a Deployment whose containers are not merged by name.
const customSchema = `{"definitions": {"v1.Deployment": {"type": "object", "properties": {"spec": {"type": "object"}},
	"x-kubernetes-group-version-kind": [{"group": "apps", "kind": "Deployment", "version": "v1"}]}}}`

// patched has a patch for one of two containers.
var patched = map[string]string{
	"kustomization.yaml": "resources: [web.yaml]\npatches: [{path: patch.yaml}]\n",
	"web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" +
		"spec: {template: {spec: {containers: [{name: web, image: web:1}, {name: proxy, image: proxy:1}]}}}\n",
	"patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: web, image: web:2}]}}}\n",
}

// kustomizeFiles builds a bundle of files and returns its manifests.
func kustomizeFiles(files map[string]string) (string, error) {
	p := &Package{Style: style{Kustomization: "kustomization.yaml"}}
	for name, text := range files {
		p.Files = append(p.Files, file{Name: name, Data: []byte(text)})
	}
	objects, err := kustomize(p, nil)
	if err != nil {
		return "", err
	}
	text, err := manifest.Format(objects)
	return string(text), err
}

func TestCustomSchema_DoesNotChangeOtherBundles(t *testing.T) {
	with := func(field string, others map[string]string) map[string]string {
		files := maps.Clone(patched)
		maps.Copy(files, others)
		files["schema.json"], files["kustomization.yaml"] = customSchema, field+patched["kustomization.yaml"]
		return files
	}
	tests := map[string]struct {
		files map[string]string
		err   string
	}{
		"schema of the bundle":     {with("openapi: {path: schema.json}\n", nil), ""},
		"another case of the name": {with("OpenAPI: {path: schema.json}\n", nil), ""},
		"schema of a component": {with("components: [inner]\n", map[string]string{"inner/schema.json": customSchema,
			"inner/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nopenapi: {path: schema.json}\n"}), ""},
		"broken schema": {with("openapi: {path: broken.json}\n", map[string]string{"broken.json": "{"}), "invalid schema file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			custom, err := kustomizeFiles(test.files)
			if test.err == "" && (err != nil || strings.Contains(custom, "proxy:1")) {
				t.Errorf("with the custom schema, the patch does not replace the containers: %s, error %v", custom, err)
			}
			if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			other, err := kustomizeFiles(patched)
			if err != nil || !strings.Contains(other, "web:2") || !strings.Contains(other, "proxy:1") {
				t.Errorf("another bundle: %s, error %v; want web:2 and proxy:1", other, err)
			}
		})
	}
}

func TestBuildWithCustomSchema_RunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSchemaGuard()
		enter := func(custom bool) (entered chan func()) {
			entered = make(chan func(), 1)
			go func() { entered <- g.enter(custom) }()
			synctest.Wait()
			return entered
		}
		slow := g.enter(false)
		waits := enter(true)
		if len(waits) != 0 {
			t.Fatal("a build with a custom schema has started while another one runs")
		}
		other := enter(false)
		if len(other) != 1 {
			t.Fatal("the build that waits stops others from starting")
		}
		slow()
		(<-other)()
		custom := <-waits
		blocked := enter(false)
		if len(blocked) != 0 {
			t.Error("a build has started while one with a custom schema runs")
		}
		custom()
		(<-blocked)()
	})
}

func TestDownloadsWithCustomSchema_EndTogether(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	limitDownloads(time.Hour, time.Hour, 1<<20)
	defer func(before time.Duration) { schemas.downloads = before }(schemas.downloads)
	schemas.downloads = 100 * time.Millisecond
	_, err := kustomizeFiles(map[string]string{
		"schema.json": customSchema, "kustomization.yaml": "openapi: {path: schema.json}\nresources: [" + server.URL + "]\n",
	})
	if err == nil || !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("error %v", err)
	}
}
