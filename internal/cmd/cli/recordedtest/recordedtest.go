// Package recordedtest runs the recorded cases of Rancher Fleet's command line in tests.
//
//	testdata/recorded ─► Open ─► copy of the input ─► Run ─► result, to compare with Want
package recordedtest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// address is where the recorded chart repositories are served.
const address = "127.0.0.1:18879"

// Folder is a folder with the recorded cases. Its README describes them.
type Folder string

// Cases returns the names of the cases that begin with the prefix.
func (r Folder) Cases(t *testing.T, prefix string) []string {
	t.Helper()
	return r.cases(t, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// CasesWithout returns the names of the cases that begin with none of the prefixes.
func (r Folder) CasesWithout(t *testing.T, prefixes ...string) []string {
	t.Helper()
	return r.cases(t, func(name string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

func (r Folder) cases(t *testing.T, wanted func(name string) bool) []string {
	t.Helper()
	entries, err := os.ReadDir(string(r))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && wanted(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		t.Fatal("there are no such cases")
	}
	return names
}

// Result is the outcome of a command.
type Result struct {
	Stdout, Stderr string
	Code           exit.Code
}

// Case is a recorded case with a copy of its input.
type Case struct {
	Name string
	// In is the folder with the input.
	In string

	folder string
}

// Open copies the input of a case.
func (r Folder) Open(t *testing.T, name string) *Case {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(string(r), name))
	if err != nil {
		t.Fatal(err)
	}
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &Case{Name: name, In: filepath.Join(parent, "in"), folder: folder}
	if err := os.Mkdir(c.In, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(c.In, os.DirFS(filepath.Join(folder, "in"))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	c.link(t)
	c.prepare(t)
	c.serve(t)
	return c
}

// link makes links of the files that were links when the case was recorded. They contain their target.
func (c *Case) link(t *testing.T) {
	t.Helper()
	for _, link := range map[string][]string{
		"symlink-inside": {"app/link.yaml", "app/sub/up.yaml"}, "symlink-escape": {"app/link.yaml"}, "symlink-folder": {"app/link"},
	}[c.Name] {
		path := filepath.Join(c.In, link)
		target, err := os.ReadFile(path)
		if err == nil {
			err = os.Remove(path)
		}
		if err == nil {
			err = os.Symlink(string(target), path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// prepare does what the script of the case does: it makes a file of many letters.
func (c *Case) prepare(t *testing.T) {
	t.Helper()
	made := regexp.MustCompile(`i<(\d+);.*printf "a".* > (\S+)`).FindStringSubmatch(c.File("prepare"))
	if made == nil {
		return
	}
	count, err := strconv.Atoi(made[1])
	if err == nil {
		err = os.WriteFile(filepath.Join(c.In, made[2]), bytes.Repeat([]byte("a"), count), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve serves the chart repository of the case until the test ends.
func (c *Case) serve(t *testing.T) {
	t.Helper()
	command := c.File("serve")
	if command == "" {
		return
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(filepath.Join(c.In, "srv")))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if strings.Contains(command, "serve.py") && (user != "me" || password != "secret") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// File returns the content of a file of the case, or empty if there is none.
func (c *Case) File(name string) string {
	text, err := os.ReadFile(filepath.Join(c.folder, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// Want returns the recorded result. Standard error was only recorded for failures.
func (c *Case) Want(t *testing.T) Result {
	t.Helper()
	result := Result{Stdout: c.File("out.yaml"), Stderr: c.File("err")}
	if packed := c.File("out.yaml.gz"); packed != "" {
		reader, err := gzip.NewReader(strings.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		result.Stdout = string(text)
	}
	code := strings.TrimSpace(c.File("exit"))
	if code != "" && code != "0" {
		result.Code = exit.Failed
	}
	return result
}

// Run executes the commands of the case and returns the result of the last one, with standard error as it was recorded:
// only the last line, without times and paths. The variables are added to those of the commands, and the arguments
// follow those of each command.
func (c *Case) Run(t *testing.T, variables map[string]string, arguments ...string) Result {
	t.Helper()
	return c.run(t, slices.Collect(strings.Lines(c.File("cmd"))), variables, arguments)
}

// Repeat executes the last command of the case again.
func (c *Case) Repeat(t *testing.T, variables map[string]string, arguments ...string) Result {
	t.Helper()
	commands := slices.Collect(strings.Lines(c.File("cmd")))
	return c.run(t, commands[len(commands)-1:], variables, arguments)
}

func (c *Case) run(t *testing.T, commands []string, variables map[string]string, arguments []string) Result {
	t.Helper()
	var last Result
	for _, line := range commands {
		words, folder, environment := words(strings.TrimSpace(line)), c.In, map[string]string{}
		if words[0] == "cd" { // cd folder && fleet …
			folder, words = filepath.Join(c.In, words[1]), words[3:]
		}
		for words[0] != "fleet" {
			key, value, _ := strings.Cut(words[0], "=")
			environment[key], words = value, words[1:]
		}
		for key, value := range variables {
			environment[key] = value
		}
		last = Run(t, folder, append(words, arguments...), environment)
	}
	if last.Code == exit.Done {
		last.Stderr = ""
		return last
	}
	last.Stderr = c.normal(last.Stderr)
	return last
}

func (c *Case) normal(stderr string) string {
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	last := lines[len(lines)-1]
	last = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `).ReplaceAllString(last, "")
	last = regexp.MustCompile(`"time":"[^"]*"`).ReplaceAllString(last, `"time":"<TIME>"`)
	return strings.ReplaceAll(last, c.In, "<IN>") + "\n"
}

// words splits a line as a shell does. The recordings contain only single quotes, and no variables.
func words(line string) []string {
	var words []string
	for _, word := range regexp.MustCompile(`(?:[^\s']|'[^']*')+`).FindAllString(line, -1) {
		words = append(words, strings.ReplaceAll(word, "'", ""))
	}
	return words
}

// Run executes a command in a folder. The environment contains only these variables.
func Run(t *testing.T, folder string, words []string, environment map[string]string) Result {
	t.Helper()
	t.Chdir(folder)
	return RunHere(t, words, environment)
}

// RunHere executes a command in the working directory.
func RunHere(t testing.TB, words []string, environment map[string]string) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	code := cli.Run(t.Context(), words, streams, func(name string) string { return environment[name] })
	return Result{stdout.String(), stderr.String(), code}
}
