package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework"
)

func TestMissingBinaries_AreNamedWithTheFix(t *testing.T) {
	var out bytes.Buffer
	cmd := command(&out)
	cmd.SetArgs([]string{"--binaries", t.TempDir()})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "run make build first") || out.Len() > 0 {
		t.Errorf("error %v, output %q", err, &out)
	}
}

func TestDemo_EndsWithSuccessAndLeavesNothing(t *testing.T) {
	binaries := t.TempDir()
	if _, err := framework.Build(t.Context(), binaries); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "d") // a test's own directory is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", short)
	var out bytes.Buffer
	cmd := command(&out)
	cmd.SetArgs([]string{"--once", "--binaries", binaries})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if n := strings.Count(out.String(), "✓"); n != 9 {
		t.Errorf("want 9 successful steps, got %d:\n%s", n, &out)
	}
	if err := os.Remove(short); err != nil {
		t.Errorf("files are left: %v", err)
	}
}
