package bundlefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	bundle     = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nmetadata: {name: web}\n"
	content    = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Content\nmetadata: {name: s-1}\n"
	deployment = "apiVersion: fleet.cattle.io/v1alpha1\nkind: BundleDeployment\nmetadata: {name: web}\n"
	configMap  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	// bomb expands to 9^8 texts.
	bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" +
		"g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n"
)

func TestParseBundle(t *testing.T) {
	for name, test := range map[string]struct{ text, problem string }{
		"a Bundle":                          {bundle, ""},
		"a Bundle as JSON":                  {`{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "web"}}`, ""},
		"empty documents around it":         {"---\n---\n# nothing\n---\n" + bundle + "---\n", ""},
		"other objects beside it":           {configMap + "---\n" + bundle, ""},
		"no document: empty":                {"", "failed to read bundle from file, bundle is empty"},
		"only comments: empty":              {"# nothing\n---\n", "failed to read bundle from file, bundle is empty"},
		"another kind":                      {configMap, "the file contains no Bundle (fleet.cattle.io/v1alpha1), but a ConfigMap (v1)"},
		"another version":                   {"apiVersion: fleet.cattle.io/v2\nkind: Bundle\n", "but a Bundle (fleet.cattle.io/v2)"},
		"an object without a kind":          {"a: b\n", "but a document without a kind"},
		"two Bundles":                       {bundle + "---\n" + bundle, "more than one Bundle"},
		"two Bundles without a separator":   {bundle + bundle, `reading document 1 of the file: yaml: unmarshal errors`},
		"no name":                           {strings.Replace(bundle, "name: web", "", 1), "the Bundle has no name"},
		"not YAML":                          {bundle + "spec: [", "reading document 1 of the file"},
		"a list":                            {"[1]", "reading document 1 of the file"},
		"a text":                            {"web", "reading document 1 of the file"},
		"a field of another type":           {bundle + "spec: {targets: {}}\n", "reading Bundle in document 1 of the file"},
		"aliases that expand without limit": {bundle + bomb, "the YAML is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseBundle([]byte(test.text))
			if test.problem == "" && (err != nil || got.Name != "web") {
				t.Errorf("got %v, %v", got, err)
			}
			if test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("error %v, want %q", err, test.problem)
			}
		})
	}
}

func TestParseDeployment(t *testing.T) {
	for name, test := range map[string]struct{ text, problem string }{
		"Content first":          {content + "---\n" + deployment, ""},
		"BundleDeployment first": {deployment + "---\n" + content, ""},
		"empty":                  {"", "failed to read content resource from file"},
		"no Content":             {deployment, "failed to read content resource from file"},
		"no BundleDeployment":    {content, "failed to read bundledeployment resource from file"},
		"no name":                {content + "---\n" + strings.Replace(deployment, "name: web", "", 1), "the BundleDeployment has no name"},
		"two BundleDeployments":  {content + "---\n" + deployment + "---\n" + deployment, "more than one BundleDeployment"},
		"two Contents":           {content + "---\n" + content + "---\n" + deployment, "more than one Content"},
		"not YAML":               {"{", "reading document 1 of the file"},
		"a field of another type": {
			content + "---\n" + deployment + "spec: {options: 1}\n", "reading BundleDeployment in document 2 of the file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			gotContent, got, err := ParseDeployment([]byte(test.text))
			if test.problem == "" && (err != nil || got.Name != "web" || gotContent.Name != "s-1") {
				t.Errorf("got %v, %v, %v", gotContent, got, err)
			}
			if test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("error %v, want %q", err, test.problem)
			}
		})
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(path, nil); err != nil || string(text) != "text" {
		t.Errorf("file: %q, %v", text, err)
	}
	if text, err := Read(Stdin, strings.NewReader("input")); err != nil || string(text) != "input" {
		t.Errorf("standard input: %q, %v", text, err)
	}
	if _, err := Read(path+"-missing", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Read(t.TempDir(), nil); err == nil {
		t.Error("a folder: no error")
	}
	endless := io.LimitReader(zeros{}, 1<<40)
	if _, err := Read(Stdin, endless); err == nil || err.Error() != "- is larger than 32 MiB" {
		t.Errorf("endless input: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
