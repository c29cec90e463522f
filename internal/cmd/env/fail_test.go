package env

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFail_WritesTheErrorIntoTheTerminationLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(path, []byte("of an earlier end, which was longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"NAMESPACE is required":                       "NAMESPACE is required",
		"a\x1b[31m " + strings.Repeat("text ", 1<<16): "a\uFFFD[31m " + strings.Repeat("text ", 407) + "t…",
	} {
		var out bytes.Buffer
		Fail(&out, path, "fleetagent", errors.New(text))
		written, err := os.ReadFile(path)
		if err != nil || string(written) != want || out.String() != "fleetagent: "+text+"\n" {
			t.Errorf("%d bytes, %v: %.100s\n…%s", len(written), err, written, written[max(0, len(written)-20):])
		}
	}
}

func TestFailOutsideOfAPod_CreatesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	Fail(&bytes.Buffer{}, path, "fleetagent", errors.New("x"))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error(err)
	}
}
