package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

// told records the messages of a test instead of failing it.
type told struct {
	testing.TB
	said []string
}

func (t *told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.said = append(t.said, fmt.Sprintf(format, args...))
}

func (t *told) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func TestExpect_ComparesWithTheFile(t *testing.T) {
	if golden.Updating() {
		t.Skip("this test needs the unchanged files")
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join("testdata", "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "below", "there.golden"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		name, got string
		says      []string
	}{
		"equal text: success":           {"below/there.golden", "one\ntwo\n", nil},
		"other text: failure":           {"below/there.golden", "one\nthree\n", []string{"testdata/below/there.golden", "-update", "two", "three"}},
		"missing last newline: failure": {"below/there.golden", "one\ntwo", []string{"testdata/below/there.golden"}},
		"missing file: failure":         {"missing.golden", "one\n", []string{"testdata/missing.golden", "-update to create it"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			said := says(t, test.name, test.got)
			if (len(said) == 0) != (len(test.says) == 0) {
				t.Fatalf("got %q", said)
			}
			for _, want := range test.says {
				if !strings.Contains(strings.Join(said, "\n"), want) {
					t.Errorf("got %q, want it to contain %q", said, want)
				}
			}
		})
	}
}

// says runs Expect in a fake test and returns its messages.
func says(t *testing.T, name, got string) []string {
	t.Helper()
	played := &told{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		golden.Expect(played, name, got)
	}()
	<-ended
	return played.said
}
