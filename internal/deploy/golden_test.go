package deploy

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update rewrites the golden files; the difference is then reviewed.
var update = flag.Bool("update", false, "rewrite testdata/*.golden")

var notForFiles = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// expectGolden compares text with testdata/<test>/<name>.golden.
func expectGolden(t *testing.T, text string) {
	t.Helper()
	test, name, _ := strings.Cut(t.Name(), "/")
	path := filepath.Join("testdata", test, strings.Trim(notForFiles.ReplaceAllString(name, "-"), "-")+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
