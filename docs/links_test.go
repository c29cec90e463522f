package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks_LeadToPagesAndHeadings follows every link between the documents, and those of the pages at the top.
func TestLinks_LeadToPagesAndHeadings(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s:]+)\)`) // not an address with a scheme
	headings := map[string]map[string]bool{}
	for _, page := range markdown(t) {
		headings[page] = headingsOf(t, page)
	}
	found := 0
	for page := range headings {
		for _, match := range link.FindAllStringSubmatch(prose(t, page), -1) {
			found++
			file, heading, _ := strings.Cut(match[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s leads to no file", page, match[1])
			} else if known, isPage := headings[target]; isPage && heading != "" && !known[heading] {
				t.Errorf("%s: link %s leads to no heading", page, match[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d links were found: the pages are read wrongly", found)
	}
}

func markdown(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(text), "")
}

// headingsOf returns the anchors of a page, as GitHub makes them from its headings.
func headingsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(t, page), -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(match[1]), "")
		anchors[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return anchors
}
