package pack

import (
	"slices"
	"strings"
	"testing"
)

func TestIgnored_DropsNames(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		// files and folders that are dropped, and that stay
		dropped, droppedFolders, kept, keptFolders string
	}{
		"name":                         {"a.yaml", "a.yaml", "a.yaml", "b.yaml aa.yaml", "a"},
		"glob":                         {"*.md", "x.md .md", "x.md", "x.mdx", "md"},
		"class":                        {"[ab]?", "ax b1", "", "cx a", ""},
		"all of a folder":              {"docs/*", "", "docs", "docs", "docs2 Docs"},
		"all of a folder is no glob":   {"d*/*", "", "d*", "", "docs"},
		"path: nothing":                {"a/b", "", "", "a b", "a b"},
		"two stars are one":            {"**", "a b", "a", "", ""},
		"comment and blank lines":      {"#x\n\n   \nb", "b", "", "#x x", ""},
		"blanks at the end":            {"a  \nb\\ ", "a", "", "a\\ b", ""},
		"blanks at the start":          {" a", "", "", "a", ""},
		"line ends of Windows":         {"a\r\nb\r\n", "a b", "", "", ""},
		"byte order mark":              {"\ufeffa\n\ufeffb", "a \ufeffb", "", "b", ""},
		"no line end at the end":       {"a\nb", "a b", "", "", ""},
		"negation is an ordinary name": {"!a", "!a", "", "a", ""},
		"escaped star":                 {`\*`, "*", "", "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			patterns, _, err := parseIgnored(test.text)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range []struct {
				names        string
				isFolder, is bool
			}{{test.dropped, false, true}, {test.droppedFolders, true, true}, {test.kept, false, false}, {test.keptFolders, true, false}} {
				for _, name := range strings.Fields(one.names) {
					if patterns.drops(name, one.isFolder) != one.is {
						t.Errorf("%q, folder %v: want %v", name, one.isFolder, one.is)
					}
				}
			}
		})
	}
	if patterns, _, _ := parseIgnored(`b\ ` + "\n"); !patterns.drops("b ", false) {
		t.Error("an escaped blank at the end does not count")
	}
}

func TestIgnoredPatternsThatMatchNothing_AreWarnings(t *testing.T) {
	for pattern, want := range map[string]string{
		"*.md": "", "docs/*": "", "a[b]": "",
		"!a":       "negated",
		"a/b":      "compared with names",
		"a/b/*":    "compared with names",
		"/a":       "compared with names",
		"**/*":     "the name of a folder",
		"/*":       "the name of a folder",
		"docs/":    "write its name with /* at the end",
		"a/docs/":  "compared with names",
		"**/a.txt": "compared with names",
	} {
		_, found, err := parseIgnored("first\n" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || found[0].Line != 2 || !strings.Contains(found[0].Text, want)) {
			t.Errorf("%s: warnings %v, want %q", pattern, found, want)
		}
	}
}

func TestIgnoredPatternThatIsInvalid_FailsWithoutItsText(t *testing.T) {
	_, _, err := parseIgnored("a\nhunter2[\n")
	if err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestIgnoreFile_HoldsForItsFolderAndThoseBelow(t *testing.T) {
	dir := folder(t, map[string]string{
		".fleetignore": "*.txt\n", "a.yaml": "", "a.txt": "", "sub/a.txt": "", "sub/b.md": "", "other/b.md": "",
		"sub/.fleetignore": "*.md\nx/y\n", "sub/deep/b.md": "", "sub/deep/c.yaml": "",
	})
	read := readAllOf(t, dir, nil)
	if want := []string{"a.yaml", "other/b.md", "sub/deep/c.yaml"}; !slices.Equal(namesOf(read), want) {
		t.Errorf("files %v, want %v", namesOf(read), want)
	}
	if len(read.warnings) != 1 || read.warnings[0].File != "shown/sub/.fleetignore" || read.warnings[0].Line != 2 {
		t.Errorf("warnings %v", read.warnings)
	}
}
