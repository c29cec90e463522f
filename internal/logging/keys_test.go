package logging

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	root = "../.."
	// page has a table with the keys and their meanings.
	page = "docs/monitoring.md"
)

// logCall is one call of a logger.
type logCall struct {
	at      string
	message string
	keys    []string
	// odd is what a reader of the code cannot tell.
	odd string
}

// counting is the file that logs counts by the names of kinds, which are a vocabulary of their own.
const counting = "agentmanagement/orphans/orphans.go"

func TestLogKeys_AreInTheVocabulary(t *testing.T) {
	known, used := vocabulary(t), map[string]bool{}
	calls := 0
	for _, dir := range []string{"internal", "cmd", "pkg"} {
		for _, call := range callsIn(t, filepath.Join(root, dir)) {
			calls++
			if call.odd != "" && !strings.HasSuffix(strings.Split(call.at, ":")[0], counting) {
				t.Errorf("%s: %s", call.at, call.odd)
			}
			for _, key := range call.keys {
				used[key] = true
				if !slices.Contains(known, key) {
					t.Errorf("%s: key %q is not in the vocabulary: use another, or add it to %s", call.at, key, page)
				}
			}
		}
	}
	if calls < 30 {
		t.Fatalf("found %d calls: the code is read wrongly", calls)
	}
	for _, key := range known {
		if !used[key] {
			t.Errorf("nothing is logged under %q: take it out of %s", key, page)
		}
	}
}

func TestCalls_FindsMessagesAndKeys(t *testing.T) {
	const file = `package p
func f() {
	a.Log.Info("done", "cluster", key, "error", err)
	log.Warn("odd", "cluster")
	x.logger.Error(message, "cluster", key)
	logger.With("library", "x").Debug("y")
	log.Info("k", key, 1)
	log.Info("spread", args...)
	log.Info("concatenated " + name)
	t.Error(err)
	vec.With(labels).Inc()
	errors.New("x")
}`
	want := []logCall{
		{at: "f.go:3", message: "done", keys: []string{"cluster", "error"}},
		{at: "f.go:4", message: "odd", keys: []string{"cluster"}, odd: "a key without a value"},
		{at: "f.go:5", keys: []string{"cluster"}, odd: "the message is not constant"},
		{at: "f.go:6", message: "y"},
		{at: "f.go:6", keys: []string{"library"}},
		{at: "f.go:7", message: "k", odd: "a key is not constant"},
		{at: "f.go:8", message: "spread", odd: "keys that are put together"},
		{at: "f.go:9", odd: "the message is not constant"},
	}
	if diff := cmp.Diff(want, calls(t, "f.go", file), cmp.AllowUnexported(logCall{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// callsIn reads all code below a folder, but this package's bridge, which passes on what libraries say.
func callsIn(t *testing.T, folder string) (found []logCall) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if strings.HasSuffix(path, "internal/logging/logging.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			found = append(found, calls(t, path, string(text))...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The words of the bridge, and of that file.
	return append(found, logCall{at: "logging.go", keys: []string{"library", "detail"}}, logCall{at: counting, keys: []string{"total"}})
}

// calls reads one file.
func calls(t *testing.T, name, text string) (found []logCall) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !isLogger(method.X) || !slices.Contains([]string{"Debug", "Info", "Warn", "Error", "With"}, method.Sel.Name) {
			return true
		}
		s := logCall{at: fmt.Sprintf("%s:%d", name, files.Position(call.Pos()).Line)}
		s.read(call, method.Sel.Name != "With")
		found = append(found, s)
		return true
	})
	return found
}

// isLogger goes by the name: that of a variable or field, or what With was called on.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "log") || x.Name == "logger"
	case *ast.SelectorExpr:
		return isLogger(x.Sel)
	case *ast.CallExpr:
		method, ok := x.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "With" && isLogger(method.X)
	}
	return false
}

func (s *logCall) read(call *ast.CallExpr, hasMessage bool) {
	args := call.Args
	if hasMessage {
		var constant bool
		if s.message, constant = literal(args[0]); !constant {
			s.odd = "the message is not constant"
		}
		args = args[1:]
	}
	if call.Ellipsis.IsValid() {
		s.odd = "keys that are put together"
		return
	}
	if len(args)%2 != 0 {
		s.odd = "a key without a value"
	}
	for i := 0; i < len(args); i += 2 {
		key, constant := literal(args[i])
		if !constant {
			s.odd = "a key is not constant"
			continue
		}
		s.keys = append(s.keys, key)
	}
}

func literal(x ast.Expr) (string, bool) {
	basic, ok := x.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(basic.Value)
	return text, err == nil
}

// vocabulary returns the keys that all log lines use. The same thing has the same key everywhere, so that a search finds every
// line. Log lines of libraries have their own keys.
func vocabulary(t *testing.T) (keys []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| key | meaning |\n|---|---|\n")
	for line := range strings.Lines(table) {
		row := regexp.MustCompile("^\\| `(\\w+)` \\| \\S.* \\|\n$").FindStringSubmatch(line)
		if row == nil {
			break
		}
		keys = append(keys, row[1])
	}
	return keys
}

func TestVocabulary_IsSorted(t *testing.T) {
	keys := vocabulary(t)
	if diff := cmp.Diff(slices.Compact(slices.Sorted(slices.Values(keys))), keys); diff != "" || len(keys) < 30 {
		t.Errorf("%d keys (-sorted +got):\n%s", len(keys), diff)
	}
}
