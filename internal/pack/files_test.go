package pack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// readFrom reads a folder as the reader of a Bundle does, with room for this many bytes.
func readFrom(dir string, excluded map[string]bool, left int64) (contents, error) {
	var room atomic.Int64
	room.Store(left)
	r := &reader{shown: "shown", excluded: excluded, left: &room, complete: func(dir string) (string, func(), error) { return dir, func() {}, nil }}
	err := r.read(dir)
	return r.contents, err
}

func readAllOf(t *testing.T, dir string, excluded map[string]bool) contents {
	t.Helper()
	read, err := readFrom(dir, excluded, maxTotal)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func namesOf(read contents) []string {
	var names []string
	for _, file := range read.files {
		names = append(names, file.name)
	}
	return names
}

func TestFolder_HiddenAndExcludedFilesAreLeftOut(t *testing.T) {
	dir := folder(t, map[string]string{
		"fleet.yaml": "", "fleet.yml": "", "sub/fleet.yaml": "", ".hidden": "", ".git/config": "", "sub/.x/y": "",
		"v.yaml": "", "sub/v.yaml": "", "env/prod.yaml": "", "prod.yaml": "", "env/other.yaml": "", "link.yaml": "-> sub/fleet.yaml",
		"options/one.yaml": "", "one.yaml": "",
	})
	read := readAllOf(t, dir, exclusions("./options/one.yaml", []string{"v.yaml", "./env/../env/prod.yaml"}))
	want := []string{"env/other.yaml", "fleet.yml", "link.yaml", "one.yaml", "sub/fleet.yaml", "sub/v.yaml"}
	if got := namesOf(read); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

func TestHostileFolder_IsRefused(t *testing.T) {
	outside := folder(t, map[string]string{"secret": "hunter2"})
	deep := strings.Repeat("d/", maxDepth+1) + "f"
	for name, test := range map[string]struct {
		files      map[string]string
		left       int64
		want, hint string
	}{
		"link out of the folder": {
			map[string]string{"sub/l": "-> " + outside + "/secret"}, maxTotal,
			`symlink "sub/l": target escapes bundle directory`, "the link shown/sub/l leads out of the folder of its Bundle; replace it by a copy, or exclude it in shown/.fleetignore",
		},
		"link out of the folder, relative": {
			map[string]string{"l": "-> ../../" + filepath.Base(filepath.Dir(outside)) + "/001/secret"}, maxTotal, "target escapes bundle directory", "the link shown/l leads out",
		},
		"links that lead out together": {
			map[string]string{"a": "-> b", "b": "-> " + outside + "/secret"}, maxTotal, "target escapes bundle directory", "the link shown/a leads out",
		},
		"link through a link to a folder": {
			map[string]string{".out": "-> " + outside, "l": "-> .out/secret"}, maxTotal, "target escapes bundle directory", "the link shown/l leads out",
		},
		"link to the folder above": {map[string]string{"l": "-> .."}, maxTotal, "target escapes bundle directory", "the link shown/l leads out"},
		"link to a folder":         {map[string]string{"a/b": "", "l": "-> a"}, maxTotal, "is a directory", "the link shown/l leads to a folder, which is not followed"},
		"link to the folder itself": {
			map[string]string{"l": "-> ."}, maxTotal, "is a directory", "the link shown/l leads to a folder",
		},
		"links in a circle":           {map[string]string{"a": "-> b", "b": "-> a"}, maxTotal, "too many links", ""},
		"broken link":                 {map[string]string{"l": "-> gone"}, maxTotal, "no such file", ""},
		"folders are nested too deep": {map[string]string{deep: ""}, maxTotal, "nested more than 100 levels deep", ""},
		"too many bytes in total":     {map[string]string{"a": "123", "b": "456"}, 5, "the files of all folders together have more than 1024 MiB", ""},
		"broken pattern":              {map[string]string{".fleetignore": "["}, maxTotal, "line 1: syntax error in pattern", ""},
		"pattern file that is a link to a folder": {
			map[string]string{".fleetignore": "-> ."}, maxTotal, "is a directory", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readFrom(folder(t, test.files), nil, test.left)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			if hint := Hint(fmt.Errorf("outer: %w", err)); !strings.HasPrefix(hint, test.hint) || (hint == "") != (test.hint == "") {
				t.Errorf("hint %q, want %q", hint, test.hint)
			}
		})
	}
}

func TestSpecialFile_FailsAtOnce(t *testing.T) {
	dir := folder(t, nil)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := readFrom(dir, nil, maxTotal); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("error %v", err)
	}
}

func TestLargeFile_IsRefusedBeforeItIsRead(t *testing.T) {
	dir := folder(t, map[string]string{"large": ""})
	if err := os.Truncate(filepath.Join(dir, "large"), maxOptions+1); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(filepath.Join(dir, "large"), maxOptions); err == nil || !strings.Contains(err.Error(), "is larger than 4 MiB") {
		t.Errorf("error %v", err)
	}
}

func TestExclusions_AreComparedAsCleanPaths(t *testing.T) {
	got := exclusions("", []string{"./a//b.yaml", "../up.yaml"})
	for _, name := range []string{"fleet.yaml", "a/b.yaml", "b.yaml", "../up.yaml", "up.yaml"} {
		if !got[name] {
			t.Errorf("%s is not excluded", name)
		}
	}
	if got["a"] || got["./a//b.yaml"] {
		t.Errorf("excluded: %v", got)
	}
}

func TestHiddenFolder_IsRecognized(t *testing.T) {
	for path, want := range map[string]bool{".": false, "..": false, "a": false, ".a": true, "b/.a": true, ".a/b": false, "../.a": true} {
		if isHidden(path) != want {
			t.Errorf("%s: want %v", path, want)
		}
	}
}

func TestCopyOfAChart_IsReadInItsPlace(t *testing.T) {
	dir := folder(t, map[string]string{"app/web/Chart.yaml": "", "app/web/x/.fleetignore": "b", "app/other": "", "app/web/.helmignore": ""})
	copied := folder(t, map[string]string{"Chart.yaml": "", "charts/a.tgz": "", "x/b": "", "x/c": "", "x/.fleetignore": "b", "link": "-> x/c"})
	removed := false
	var room atomic.Int64
	room.Store(maxTotal)
	r := &reader{shown: "shown", left: &room, complete: func(at string) (string, func(), error) {
		if at != filepath.Join(dir, "app/web") {
			t.Errorf("completed %s", at)
		}
		return copied, func() { removed = true }, nil
	}}
	if err := r.read(dir); err != nil {
		t.Fatal(err)
	}
	want := []string{"app/other", "app/web/Chart.yaml", "app/web/charts/a.tgz", "app/web/link", "app/web/x/c"}
	if got := namesOf(r.contents); !slices.Equal(got, want) || !removed {
		t.Errorf("files %v, want %v; removed: %v", got, want, removed)
	}
}
