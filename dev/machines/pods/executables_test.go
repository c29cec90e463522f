package pods

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExecutables_AreFoundOnThePath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleetagent"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	given := map[string]string{"fleetagent": "fleetagent", "absolute": "/bin/absolute", "missing": "no-such-program"}
	want := map[string]string{"fleetagent": filepath.Join(dir, "fleetagent"), "absolute": "/bin/absolute", "missing": "no-such-program"}
	if diff := cmp.Diff(want, executables(given)); diff != "" {
		t.Errorf("executables (-want +got):\n%s", diff)
	}
	if given["fleetagent"] != "fleetagent" {
		t.Error("the options were changed")
	}
}
