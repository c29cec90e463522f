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

// growing is a log, and what appends to it.
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

func TestALogIsReadWhileItGrows(t *testing.T) {
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

// A line that is being written when the reading begins, however long, is read when it is whole.
func TestALogIsOpenedInTheMiddleOfALine(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for name, before := range map[string]string{
		"the first": `{"verb":`, "another": `{"verb":"before"}` + "\n" + `{"verb":`, "a long one": `{"verb":"before"}` + "\n" + `{"auditID":"` + long + `","verb":`,
	} {
		path, add := growing(t, before)
		l, err := NewLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := verbs(t, l); found != nil {
			t.Errorf("%s: %q before it is whole", name, found)
		}
		add(`"a"}` + "\n")
		if diff := cmp.Diff([]string{"a"}, verbs(t, l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestALogWithSomethingElseInIt(t *testing.T) {
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

func TestALogThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	if _, err := NewLog(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	gone := &Log{path: path}
	if _, err := gone.Next(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
