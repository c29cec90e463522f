package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTail_ReturnsTheEnd(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	if err := os.WriteFile(file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path       string
		from, most int64
		want       string
	}{
		"short file: all":                {file, 0, 100, "0123456789"},
		"long file: the end":             {file, 0, 3, "789"},
		"from an offset":                 {file, 8, 100, "89"},
		"from an offset, limited":        {file, 2, 3, "789"},
		"offset behind the end: nothing": {file, 20, 3, ""},
		"no file: nothing":               {filepath.Join(dir, "none"), 0, 3, ""},
		"folder in place of it: nothing": {dir, 0, 3, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(Tail(test.path, test.from, test.most)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLargeLog_IsReplacedWhenItIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, size := range []int64{mostLog, mostLog + 1} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		file, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		if isReplaced := sizeOf(path) == 0 && sizeOf(path+".1") == size; isReplaced != (size > mostLog) {
			t.Errorf("a log of %d bytes was replaced: %t", size, isReplaced)
		}
	}
}

func TestInterrupted_NamesTheCommand(t *testing.T) {
	got := Interrupted(Record{Phase: Bootstrapping, Command: 2, Line: 7})
	if got.Phase != Failed || got.Cause != "the machine ended while command 2 (line 7) ran" || got.Line != 7 {
		t.Errorf("record %+v", got)
	}
	if got := Interrupted(Record{Phase: Bootstrapping}); !strings.Contains(got.Cause, "before the first command") {
		t.Errorf("record %+v", got)
	}
}
