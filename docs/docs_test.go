// Package docs_test compares the documents with the code.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page describes a document whose tables name tests in their last column.
type page struct {
	// least is the minimum number of tests that it names.
	least int
	// home is the package of tests without a package. Without a home, that is the package of the test before.
	home string
	// short maps abbreviations to packages.
	short map[string]string
}

func pages() map[string]page {
	const controller = "internal/cmd/controller/"
	return map[string]page{
		"contract.md":  {least: 100, short: map[string]string{"agentmanagement": controller + "agentmanagement"}},
		"delivery.md":  {least: 70, home: "internal/deploy"},
		"targeting.md": {least: 70, home: "internal/rules/targeting", short: map[string]string{"bundles": controller + "bundles"}},
	}
}

func TestNamedTests_Exist(t *testing.T) {
	known, told := tests(t)
	for name, page := range pages() {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("developing", name))
			if err != nil {
				t.Fatal(err)
			}
			named := page.tests(string(text))
			if len(named) < page.least {
				t.Fatalf("only %d tests are named", len(named))
			}
			for _, test := range named {
				if !known[test] {
					t.Errorf("there is no %s", test)
				}
			}
			for _, story := range regexp.MustCompile(`e2e[a-z/]* "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
				if !strings.Contains(told, story[1]) {
					t.Errorf("no story %q is told", story[1])
				}
			}
		})
	}
}

// tests returns the tests that a page names, each as "package Test".
func (p page) tests(text string) (named []string) {
	folder, test := regexp.MustCompile(`^[a-z0-9]+(/[a-z0-9]+)*$`), regexp.MustCompile(`^Test[A-Z]\w*`)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), " | ")
		in := p.home
		for _, word := range strings.Fields(cells[len(cells)-1]) {
			word = strings.Trim(word, ",;()")
			if found := test.FindString(word); found != "" {
				named = append(named, in+" "+found)
				if p.home != "" {
					in = p.home
				}
				continue
			}
			first, below, _ := strings.Cut(word, "/")
			if long, ok := p.short[first]; ok {
				word = strings.TrimSuffix(long+"/"+below, "/")
			}
			if strings.Contains(word, "/") && folder.MatchString(word) {
				in = word
			}
		}
	}
	return named
}

func TestPage_FindsTestsInTheLastColumn(t *testing.T) {
	row := func(cell string) string { return "| what holds | " + cell + " |\n" }
	tests := map[string]struct {
		page page
		cell string
		want string
	}{
		"without a package: package of the test before": {page{}, "a/b TestOne, TestTwo", "a/b TestOne,a/b TestTwo"},
		"other package":                          {page{}, "a/b TestOne; c/d TestTwo", "a/b TestOne,c/d TestTwo"},
		"stories are skipped":                    {page{}, `a/b stories one, two, TestOne; e2e "told"`, "a/b TestOne"},
		"name of a row is dropped":               {page{}, "a/b TestOne/of_a_row, …/of_another, TestTwo (first, second)", "a/b TestOne,a/b TestTwo"},
		"without a package: package of the page": {page{home: "h/i"}, "TestOne, a/b TestTwo, TestThree", "h/i TestOne,a/b TestTwo,h/i TestThree"},
		"abbreviated package":                    {page{home: "h/i", short: map[string]string{"c": "a/c"}}, "c TestOne, c/d TestTwo", "a/c TestOne,a/c/d TestTwo"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(test.page.tests(row(test.cell)), ","); got != test.want {
				t.Errorf("named are %s, want %s", got, test.want)
			}
		})
	}
}

// tests returns the names of all test functions, each as "package Test", and the text of the stories.
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
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		for _, match := range declared.FindAllSubmatch(text, -1) {
			known[folder+" "+string(match[1])] = true
		}
		if strings.HasPrefix(folder+"/", "e2e/") {
			told.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return known, told.String()
}
