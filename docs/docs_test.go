// Package docs_test holds the documents to the code.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheTestsThatAreNamedExist looks for every test that a page of behaviours names.
func TestTheTestsThatAreNamedExist(t *testing.T) {
	known, told := tests(t)
	for name, least := range map[string]int{"contract.md": 100, "delivery.md": 70, "targeting.md": 70} {
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			named := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(page), -1)
			if len(named) < least {
				t.Fatalf("only %d tests are named", len(named))
			}
			for _, name := range named {
				if !known[name] {
					t.Errorf("there is no %s", name)
				}
			}
			for _, story := range regexp.MustCompile(`e2e "([^"]+)"`).FindAllStringSubmatch(string(page), -1) {
				if !strings.Contains(told, story[1]) {
					t.Errorf("no story %q is told", story[1])
				}
			}
		})
	}
}

// tests are the names of all test functions, and the text of the stories.
func tests(t *testing.T) (known map[string]bool, stories string) {
	t.Helper()
	known = map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	var told strings.Builder
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(text, -1) {
			known[string(match[1])] = true
		}
		if strings.HasPrefix(path, filepath.Join("..", "e2e")+string(filepath.Separator)) {
			told.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return known, told.String()
}
