package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// longestWalk is the largest number of functions that the path of one object may have.
const longestWalk = 25

// TestArchitecture_NamesFunctionsThatExist checks the tables that follow an object through the code.
func TestArchitecture_NamesFunctionsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("developing", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (\\d+) \\| `([a-z0-9/]+)` `(\\w+)` \\|").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 3*10 {
		t.Fatalf("only %d functions are named", len(rows))
	}
	sources := map[string]string{}
	for _, row := range rows {
		dir, function := row[2], row[3]
		if number, err := strconv.Atoi(row[1]); err != nil || number > longestWalk {
			t.Errorf("%s %s is number %s, more than %d", dir, function, row[1], longestWalk)
		}
		if sources[dir] == "" {
			sources[dir] = sourceOf(t, filepath.Join("..", dir))
		}
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + function + `[\[(]`).MatchString(sources[dir]) {
			t.Errorf("%s has no function %s", dir, function)
		}
	}
}

// sourceOf returns the code of a package without its tests.
func sourceOf(t *testing.T, dir string) (source string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if matched, _ := filepath.Match("*_test.go", filepath.Base(file)); matched {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text) + "\n"
	}
	return source
}
