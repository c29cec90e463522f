package pack

import (
	"slices"
	"strings"
	"testing"
)

func TestFind_ReturnsTheFoldersOfBundles(t *testing.T) {
	t.Chdir(folder(t, map[string]string{
		"root/plain/cm.yaml":          "",
		"root/plain/below/x.yaml":     "",
		"root/json/a.json":            "",
		"root/nested/fleet.yaml":      "",
		"root/nested/a/b/fleet.yml":   "",
		"root/nested/.git/fleet.yaml": "",
		"root/nested/c/x.yaml":        "",
		"root/only/inner/fleet.yaml":  "",
		"root/only/inner/cm.yaml":     "",
		"root/hidden/.x.yml":          "",
		"file.yaml":                   "",
		"link":                        "-> root/nested",
	}))
	for name, test := range map[string]struct {
		paths string
		want  string
	}{
		"no path is the working directory":   {"", ". root/nested root/nested/a/b root/only/inner"},
		"folder without options":             {"root/plain", "root/plain"},
		"folder without YAML":                {"root/json", ""},
		"folders with options, but not .git": {"root/nested", "root/nested root/nested/a/b"},
		"YAML only in a Bundle of its own":   {"root/only", "root/only/inner"},
		"hidden YAML file counts":            {"root/hidden", "root/hidden"},
		"glob with leading slash":            {"/root/*ed", "root/nested root/nested/a/b"},
		"the spelling stays":                 {"./root/plain root//plain/", "./root/plain root//plain/"},
		"file":                               {"file.yaml", ""},
		"no match":                           {"nowhere no*where", ""},
		"link to a folder":                   {"link", ""},
		"several paths keep their order":     {"root/plain root/hidden", "root/plain root/hidden"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Find(strings.Fields(test.paths), "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, folder := range found {
				got = append(got, folder.Path)
			}
			if want := strings.Fields(test.want); !slices.Equal(got, want) {
				t.Errorf("folders %q, want %q", got, want)
			}
		})
	}
	if _, err := Find([]string{"["}, ""); err == nil || !strings.Contains(err.Error(), `invalid path "["`) {
		t.Errorf("invalid glob: error %v", err)
	}
	if found, err := Find([]string{"root/plain"}, "options.yaml"); err != nil || len(found) != 1 || found[0].Options != "options.yaml" {
		t.Errorf("options: %v, error %v", found, err)
	}
}

func TestSplit_SeparatesFolderAndOptions(t *testing.T) {
	got, err := Split([]string{"a", "b:env/c.yaml"}, ":")
	if want := []Folder{{Path: "a"}, {Path: "b", Options: "env/c.yaml"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("folders %v, error %v", got, err)
	}
	if _, err := Split([]string{"a:b:c"}, ":"); err == nil || err.Error() != `invalid bundle path: "a:b:c"` {
		t.Errorf("error %v", err)
	}
}

func TestFind_GivesTheFolderOfAllMatches(t *testing.T) {
	t.Chdir(folder(t, map[string]string{"apps/web/cm.yaml": "x: 1", "apps/db/cm.yaml": "x: 1"}))
	for pattern, want := range map[string]string{
		"apps/*": "apps", "a*/web": ".", "*/*": ".", "apps/[dw]*": "apps", "apps/web": "apps/web", "/apps/web": "apps/web", ".": ".",
	} {
		found, err := Find([]string{pattern}, "")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, folder := range found {
			if folder.Given != want {
				t.Errorf("%s: given %q, want %q", pattern, folder.Given, want)
			}
		}
	}
}
