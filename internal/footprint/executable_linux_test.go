package footprint

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// fileKilobytes is how much of files this process has in memory.
func fileKilobytes(t *testing.T) (kilobytes int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "RssFile:"); found {
			if _, err := fmt.Sscanf(value, "%d kB", &kilobytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kilobytes
}

// TestTheExecutableLeavesAndComesBack takes this very program's pages away, and runs on.
func TestTheExecutableLeavesAndComesBack(t *testing.T) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path) // so that nothing has to come from a disk
	if err != nil || len(text) == 0 {
		t.Fatal(err)
	}
	for range 3 {
		before := fileKilobytes(t)
		if err := unmapExecutable(); err != nil {
			t.Fatal(err)
		}
		if after := fileKilobytes(t); after >= before {
			t.Errorf("%d kB of files before, %d after", before, after)
		}
		if got := fmt.Sprintf("%v %q %x", []float64{1.5}, "words", "bytes"); got != `[1.5] "words" 6279746573` {
			t.Errorf("the program is another one: %s", got)
		}
		TestPagesThatAreTheFiles(t)
	}
}

func TestAdviceThatIsRefused(t *testing.T) {
	if err := advise(mapping{Start: 1, End: 2}, adviseCold); err == nil {
		t.Error("an address within a page was accepted")
	}
}
