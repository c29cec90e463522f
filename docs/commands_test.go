package docs_test

import (
	"os"
	"regexp"
	"testing"
)

// TestDocumentsForKubectl_DoNotLookLikeJSON reads the documents that commands pass to kubectl. Some versions of kubectl take one
// that begins with a brace for JSON.
func TestDocumentsForKubectl_DoNotLookLikeJSON(t *testing.T) {
	input := regexp.MustCompile(`kubectl [^\n]*-f - <<END\n([^\n]*)`)
	found := 0
	for _, page := range markdown(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range input.FindAllStringSubmatch(string(text), -1) {
			found++
			if match[1] != "" && match[1][0] == '{' {
				t.Errorf("%s: begin with apiVersion instead of %s", page, match[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d documents were found: the pages are read wrongly", found)
	}
}
