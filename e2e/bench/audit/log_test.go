package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// growing returns the path of a log and a function that appends to it.
func growing(t *testing.T, before string) (path string, add func(string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.json")
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func(text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func verbs(t *testing.T, l *Log) (found []string) {
	t.Helper()
	events, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		found = append(found, e.Verb)
	}
	return found
}

func TestNext_ReadsAGrowingLog(t *testing.T) {
	path, add := growing(t, `{"verb":"before"}`+"\n")
	l, err := NewLog(path)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		says, text string
		want       []string
	}{
		{"nothing has come yet", "", nil},
		{"two lines", `{"verb":"a"}` + "\n" + `{"verb":"b"}` + "\n", []string{"a", "b"}},
		{"nothing more", "", nil},
		{"a line and a part of the next", `{"verb":"c"}` + "\n" + `{"ve`, []string{"c"}},
		{"still a part", `rb":`, nil},
		{"the rest", `"d"}` + "\n", []string{"d"}},
	}
	for _, step := range steps {
		add(step.text)
		if diff := cmp.Diff(step.want, verbs(t, l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.says, diff)
		}
	}
}

// TestNewLogInTheMiddleOfALine_ReadsTheLine opens a log while a line is being written. The line is read when it
// is complete.
func TestNewLogInTheMiddleOfALine_ReadsTheLine(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for name, before := range map[string]string{
		"first line": `{"verb":`, "another": `{"verb":"before"}` + "\n" + `{"verb":`, "long line": `{"verb":"before"}` + "\n" + `{"auditID":"` + long + `","verb":`,
	} {
		path, add := growing(t, before)
		l, err := NewLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := verbs(t, l); found != nil {
			t.Errorf("%s: got %q before the line is complete", name, found)
		}
		add(`"a"}` + "\n")
		if diff := cmp.Diff([]string{"a"}, verbs(t, l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNextInvalidLine_Fails(t *testing.T) {
	path, add := growing(t, "")
	l, err := NewLog(path)
	if err != nil {
		t.Fatal(err)
	}
	add("not JSON\n")
	if events, err := l.Next(); err == nil {
		t.Errorf("got %v", events)
	}
}

func TestMissingLog_Fails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	if _, err := NewLog(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	gone := &Log{path: path}
	if _, err := gone.Next(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
