// Package golden compares the output of a test with a file that was reviewed.
//
// `go test ./some/package -update` rewrites the files. Review the diff before you commit it.
package golden

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files") //nolint:gochecknoglobals // flags are declared before TestMain parses them

// Updating reports whether golden files are to be rewritten, for tests with their own file format.
func Updating() bool { return *update }

// Expect compares got with the file testdata/<name>, or writes the file with -update.
func Expect(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		write(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to create it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update to rewrite it):\n%s", path, diff)
	}
}

// ExpectJSON compares a value as indented JSON with the file testdata/<name>, or writes the file with -update.
func ExpectJSON(t testing.TB, name string, got any) {
	t.Helper()
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	Expect(t, name, string(text)+"\n")
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
