package cli_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// recordedFolder contains runs of Rancher Fleet's command line. Its README describes the files. It is absolute, because
// the runs change the working directory.
var recordedFolder = sync.OnceValue(func() string {
	folder, err := filepath.Abs("testdata/recorded")
	if err != nil {
		panic(err)
	}
	return folder
})

// links are files of the recordings that were links. They contain their target.
func links() []string {
	return []string{
		"symlink-inside/in/app/link.yaml", "symlink-inside/in/app/sub/up.yaml", "symlink-escape/in/app/link.yaml", "symlink-folder/in/app/link",
	}
}

// recordedCases returns the cases whose name has one of the prefixes, or those with none of them.
func recordedCases(t *testing.T, prefixed bool, prefixes ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(recordedFolder())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		has := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(entry.Name(), prefix) })
		if entry.IsDir() && has == prefixed {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		t.Fatal("there are no cases")
	}
	return names
}

// recordedInput copies the input of a case and returns the folder.
func recordedInput(t *testing.T, name string) string {
	t.Helper()
	in, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in = filepath.Join(in, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	if from := filepath.Join(recordedFolder(), name, "in"); exists(from) {
		if err := os.CopyFS(in, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range links() {
		relative, isHere := strings.CutPrefix(link, name+"/in/")
		if !isHere {
			continue
		}
		path := filepath.Join(in, relative)
		target := readFile(t, path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	prepare(t, name, in)
	return in
}

// prepare does what the script of a case does: it makes a file with many letters.
func prepare(t *testing.T, name, in string) {
	t.Helper()
	script := filepath.Join(recordedFolder(), name, "prepare")
	if !exists(script) {
		return
	}
	made := regexp.MustCompile(`i<(\d+);.*printf "a".* > (\S+)`).FindStringSubmatch(readFile(t, script))
	count, err := strconv.Atoi(made[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, made[2]), bytes.Repeat([]byte("a"), count), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serve serves the chart repository of a case, at the address that the recordings contain.
func serve(t *testing.T, name, in string) {
	t.Helper()
	command := filepath.Join(recordedFolder(), name, "serve")
	if !exists(command) {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:18879")
	if err != nil {
		t.Fatal(err)
	}
	authenticates := strings.Contains(readFile(t, command), "serve.py")
	files := http.FileServer(http.Dir(filepath.Join(in, "srv")))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if authenticates && (user != "me" || password != "secret") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
}

// result is the outcome of the last command of a case.
type result struct {
	stdout, stderr string
	code           exit.Code
}

// runRecorded executes the commands of a case in its folder. more are arguments that follow each command.
func runRecorded(t *testing.T, name, in string, environment map[string]string, more ...string) result {
	t.Helper()
	var last result
	for line := range strings.Lines(readFile(t, filepath.Join(recordedFolder(), name, "cmd"))) {
		words, folder, variables := shellWords(strings.TrimSpace(line)), in, map[string]string{}
		if words[0] == "cd" {
			folder, words = filepath.Join(in, words[1]), words[3:]
		}
		for words[0] != "fleet" {
			key, value, _ := strings.Cut(words[0], "=")
			variables[key], words = value, words[1:]
		}
		for key, value := range environment {
			variables[key] = value
		}
		last = runIn(t, folder, append(words, more...), variables)
	}
	return last
}

// runIn executes a command in a folder.
func runIn(t *testing.T, folder string, words []string, environment map[string]string) result {
	t.Helper()
	t.Chdir(folder)
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	code := cli.Run(t.Context(), words, streams, func(name string) string { return environment[name] })
	return result{stdout.String(), stderr.String(), code}
}

// shellWords splits a line as a shell does. The recordings contain no other quotes and no variables.
func shellWords(line string) []string {
	var words []string
	for _, word := range regexp.MustCompile(`(?:[^\s']|'[^']*')+`).FindAllString(line, -1) {
		words = append(words, strings.ReplaceAll(word, "'", ""))
	}
	return words
}

// failure returns the standard error of a failed run as it was recorded: the last line, without time and paths.
func failure(stderr, in string) string {
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	last := lines[len(lines)-1]
	last = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `).ReplaceAllString(last, "")
	last = regexp.MustCompile(`"time":"[^"]*"`).ReplaceAllString(last, `"time":"<TIME>"`)
	return strings.ReplaceAll(last, in, "<IN>") + "\n"
}

// The progress of a dependency update is printed to standard error, so that standard output is YAML: the first two lines
// of chart-file-dependency are missing on purpose.
func TestRecordedApply_PrintsTheSameBytes(t *testing.T) {
	for _, name := range recordedCases(t, false, "cli-", "online-") {
		t.Run(name, func(t *testing.T) {
			if name == "chart-file-dependency" {
				t.Skip("dependencies are not fetched yet")
			}
			in := recordedInput(t, name)
			serve(t, name, in)
			got := runRecorded(t, name, in, nil)
			folder := filepath.Join(recordedFolder(), name)
			want := result{code: exit.Done}
			if code := filepath.Join(folder, "exit"); exists(code) && strings.TrimSpace(readFile(t, code)) != "0" {
				want = result{code: exit.Failed, stderr: readFile(t, filepath.Join(folder, "err"))}
				got.stderr = failure(got.stderr, in)
			} else {
				want.stdout, want.stderr = recordedOutput(t, folder), got.stderr
			}
			if name == "chart-file-dependency" {
				want.stdout = strings.TrimPrefix(want.stdout, "Saving 1 charts\nDeleting outdated charts\n")
				got.stdout = regexp.MustCompile(`generated: ".*"`).ReplaceAllString(got.stdout, `generated: "<TIME>"`)
				got.stdout = regexp.MustCompile(`content: H4sI\S*`).ReplaceAllString(got.stdout, `content: <ARCHIVE>`)
			}
			if got.code != want.code {
				t.Errorf("exit code %d, want %d", got.code, want.code)
			}
			if diff := cmp.Diff(want.stderr, got.stderr); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Split(want.stdout, "\n"), strings.Split(got.stdout, "\n")); diff != "" {
				t.Errorf("standard output (-want +got):\n%.5000s\nstandard error:\n%s", diff, got.stderr)
			}
		})
	}
}

// recordedOutput returns the standard output of a case.
func recordedOutput(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "out.yaml")
	if exists(path) {
		return readFile(t, path)
	}
	reader, err := gzip.NewReader(strings.NewReader(readFile(t, path+".gz")))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
