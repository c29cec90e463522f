// Package recorded reads testdata/recorded: the objects of a hub and its clusters that Rancher Fleet has created. Tests
// compare our objects with them.
package recorded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Objects returns the objects of one of the hub's files, for example "clusters", in the file's order.
func Objects[T any](t testing.TB, file string) (found []*T) {
	t.Helper()
	path := filepath.Join(Folder(t), "hub", file+".yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := new(T)
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		found = append(found, object)
	}
	return found
}

// Folder returns the directory of the recorded objects. A test runs in the directory of its package, below go.mod.
func Folder(t testing.TB) string {
	t.Helper()
	from, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for root := from; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Join(root, "testdata", "recorded")
		}
	}
	t.Fatalf("there is no go.mod above %s", from)
	return ""
}
