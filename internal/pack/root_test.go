package pack

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

// online are options whose charts are fetched.
func online() Options {
	options := offline()
	options.Progress = io.Discard
	options.Charts = Charts{Fetch: charts.Fetch, Complete: charts.Complete}
	return options
}

// write writes a file in a folder.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A repository is packed on a machine with files that its authors must not see.
func TestFilesOfThisMachine_AreNotPackedBecauseARepositoryNamesThem(t *testing.T) {
	outside := folder(t, map[string]string{
		"secret": "key: hunter2", "secret.yaml": "key: hunter2", "chart/Chart.yaml": "{apiVersion: v2, name: other, version: 1.0.0, description: hunter2}",
		"repo/HEAD": "ref: refs/heads/main", "repo/objects/x": "", "repo/refs/x": "",
	})
	const chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
	dependency := func(repository string) string {
		return chart + "dependencies: [{name: other, version: 1.0.0, repository: \"file://" + repository + "\"}]\n"
	}
	for name, test := range map[string]struct {
		files       map[string]string
		field, file string
	}{
		"absolute folder":             {map[string]string{"fleet.yaml": "helm: {chart: " + outside + "}"}, "helm.chart", outside},
		"absolute file":               {map[string]string{"fleet.yaml": "helm: {chart: " + outside + "/secret}"}, "helm.chart", outside + "/secret"},
		"folder of a target":          {map[string]string{"fleet.yaml": "targets: [{helm: {chart: " + outside + "}}]"}, "helm.chart", outside},
		"git repository":              {map[string]string{"fleet.yaml": "helm: {chart: \"git::file://" + outside + "/repo\"}"}, "helm.chart", outside + "/repo"},
		"git repository, no scheme":   {map[string]string{"fleet.yaml": "helm: {chart: \"git::" + outside + "/repo\"}"}, "helm.chart", outside + "/repo"},
		"values":                      {map[string]string{"fleet.yaml": "helm: {chart: ., valuesFiles: [$UP/secret.yaml]}"}, "helm.valuesFiles", outside + "/secret.yaml"},
		"values of a target":          {map[string]string{"fleet.yaml": "targets: [{helm: {valuesFiles: [$UP/secret.yaml]}}]"}, "helm.valuesFiles", outside + "/secret.yaml"},
		"values through a link":       {map[string]string{"fleet.yaml": "helm: {chart: ., valuesFiles: [v.yaml]}", "v.yaml": "-> " + outside + "/secret.yaml"}, "helm.valuesFiles", "app/v.yaml"},
		"options":                     {map[string]string{"fleet.yaml": "-> " + outside + "/secret.yaml"}, "the link fleet.yaml", "app/fleet.yaml"},
		"dependency":                  {map[string]string{"Chart.yaml": dependency(outside + "/chart")}, "dependency other", outside + "/chart"},
		"dependency by relative path": {map[string]string{"Chart.yaml": dependency("$UP/chart")}, "dependency other", outside + "/chart"},
	} {
		for _, isTree := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				dir := folder(t, map[string]string{"app/cm.yaml": "x: 1"})
				if isTree {
					write(t, dir, ".git/HEAD", "")
				}
				up, err := filepath.Rel(filepath.Join(dir, "app"), outside)
				if err != nil {
					t.Fatal(err)
				}
				for file, text := range test.files {
					if to, isLink := strings.CutPrefix(text, "-> "); isLink {
						if err := os.Symlink(to, filepath.Join(dir, "app", file)); err != nil {
							t.Fatal(err)
						}
						continue
					}
					write(t, dir, "app/"+file, strings.ReplaceAll(text, "$UP", up))
				}
				t.Chdir(dir)
				bundles, failed := Pack(t.Context(), []Folder{{Path: "app", Given: "app"}}, online())
				if len(bundles) != 0 || failed == nil || strings.Contains(failed.Error(), "hunter2") {
					t.Fatalf("Bundles %v, error %v", bundles, failed)
				}
				var refused *charts.OutsideError
				if !errors.As(failed, &refused) {
					t.Fatalf("error %v", failed)
				}
				named, err := filepath.Abs(refused.Path)
				if err != nil || refused.Field != test.field || !strings.HasSuffix(named, test.file) {
					t.Errorf("error %v, want one about %s and %s", refused, test.field, test.file)
				}
				if hint := Hint(failed); !strings.HasPrefix(hint, test.field+" of app") || !strings.Contains(hint, "copy ") {
					t.Errorf("hint %q", hint)
				}
			})
		}
	}
}

func TestFilesOfTheWorkTree_MayBeNamed(t *testing.T) {
	const chart = "apiVersion: v2\nname: other\nversion: 1.0.0\n"
	files := map[string]string{
		"up.yaml": "up: true", "charts/other/Chart.yaml": chart, "apps/charts/a/Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\n" +
			"dependencies: [{name: other, version: 1.0.0, repository: \"file://../../../charts/other\"}]\n",
		"apps/web/fleet.yaml": "helm: {chart: ../../charts/other, valuesFiles: [../../up.yaml, l.yaml]}", "apps/web/cm.yaml": "x: 1", "apps/web/l.yaml": "-> ../../up.yaml",
		"apps/abs/fleet.yaml": "helm: {chart: $DIR/charts/other}", "apps/abs/cm.yaml": "x: 1",
	}
	for name, test := range map[string]struct {
		tree  string
		given string
	}{
		"work tree":                   {".git/HEAD", "apps/web"},
		"work tree of another branch": {".git", "apps/web"},
		"PATH":                        {"", "."},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string]string{}
			for file, text := range files {
				all[file] = text
			}
			if test.tree != "" {
				all[test.tree] = "gitdir: /elsewhere"
			}
			dir := folder(t, all)
			write(t, dir, "apps/abs/fleet.yaml", strings.ReplaceAll(all["apps/abs/fleet.yaml"], "$DIR", dir))
			t.Chdir(dir)
			bundles, err := Pack(t.Context(), []Folder{{Path: "apps/web", Given: test.given}, {Path: "apps/charts", Given: test.given}, {Path: "apps/abs", Given: test.given}}, online())
			if err != nil || len(bundles) != 3 {
				t.Fatalf("Bundles %v, error %v, hint %s", bundles, err, Hint(err))
			}
			if values := bundles[0].Spec.Helm.Values.Data; values["up"] != true {
				t.Errorf("values %v", values)
			}
			if len(bundles[1].Spec.Resources) != 3 || len(bundles[2].Spec.Resources) != 2 {
				t.Errorf("resources %v and %v", bundles[1].Spec.Resources, bundles[2].Spec.Resources)
			}
		})
	}
}

// A repository can contain a git repository, but not its own folder .git.
func TestGitRepositoryInTheWorkTree_RefersToNothingOutside(t *testing.T) {
	outside := folder(t, map[string]string{"repo/HEAD": "ref: refs/heads/main", "repo/objects/x": "", "repo/refs/x": ""})
	for name, inner := range map[string]map[string]string{
		"link":       {"x.git/HEAD": "ref: refs/heads/main", "x.git/refs": "-> " + outside + "/repo/refs", "x.git/objects": "-> " + outside + "/repo/objects"},
		"git file":   {"x.git/.git": "gitdir: " + outside + "/repo"},
		"alternates": {"x.git/HEAD": "ref: refs/heads/main", "x.git/refs/x": "", "x.git/objects/info/alternates": outside + "/repo/objects"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{".git/HEAD": "", "app/cm.yaml": "x: 1"}
			for file, text := range inner {
				files[file] = text
			}
			dir := folder(t, files)
			write(t, dir, "app/fleet.yaml", "helm: {chart: \"git::file://"+dir+"/x.git\"}")
			_, err := Pack(t.Context(), []Folder{{Path: filepath.Join(dir, "app")}}, online())
			if err == nil || !strings.Contains(err.Error(), "can refer to files outside of "+dir) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestSSHAgent_IsUsedOnlyForAllowedAddresses(t *testing.T) {
	for expression, want := range map[string]bool{"": false, "git::ssh://other": false, "git::ssh://h/": true} {
		used := false
		_ = Credentials{Expression: expression}.with(charts.Auth{}, "git::ssh://h/x", func(auth charts.Auth) error {
			used = auth.SSHAgent
			return nil
		})
		if used != want {
			t.Errorf("%q: agent %v, want %v", expression, used, want)
		}
	}
	t.Setenv("SSH_AUTH_SOCK", "/dev/null")
	options := online()
	bundles, err := packed(t, map[string]string{"app/fleet.yaml": "helm: {chart: \"git::ssh://git@127.0.0.1:1/x\"}", "app/cm.yaml": ""}, options, Folder{Path: "app"})
	if err == nil || !strings.Contains(err.Error(), "the SSH agent is not used for this address") || !strings.Contains(Hint(err), "add --helm-repo-url-regex") {
		t.Errorf("Bundles %v, error %v, hint %q", bundles, err, Hint(err))
	}
}
