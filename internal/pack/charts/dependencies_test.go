package charts_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

const parent = "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- name: web\n  version: 1.x.x\n  repository: "

func allow(prefix string) func(string) bool {
	return func(repository string) bool { return strings.HasPrefix(repository, prefix) }
}

// Helm refuses files of more than 5 MiB, and charts with more files than the limit are refused. Of charts without dependencies, only
// the files that could list them are read.
func TestFilesThatDoNotBelongToTheChart_AreNotRead(t *testing.T) {
	large := strings.Repeat("x", 6<<20)
	for name, dependency := range map[string]string{"without dependencies": "apiVersion: v2\nname: app\nversion: 0.1.0\n", "with a missing one": parent + "file://../web"} {
		for ignored, test := range map[string]struct {
			ignore, file string
			ok           bool
		}{
			"git's files":          {"", ".git/objects/pack/a.pack", true},
			"an ignored folder":    {"data/\n", "data/a", true},
			"an ignored file":      {"*.bin", "files/a.bin", true},
			"a file of the chart":  {"data/\n", "files/a", false},
			"a folder like git's":  {"", "files/.git/a", false},
			"rules without effect": {"# data", "data/a", false},
		} {
			t.Run(name+", "+ignored, func(t *testing.T) {
				dir := t.TempDir()
				write(t, dir, map[string]string{
					"app/Chart.yaml": dependency, "app/.helmignore": test.ignore, "app/" + test.file: large,
					"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2.0\n",
				})
				complete, remove, err := charts.Complete(t.Context(), filepath.Join(dir, "app"), charts.Auth{}, io.Discard)
				if ok := test.ok || name == "without dependencies"; ok != (err == nil) {
					t.Fatal(err)
				}
				if err != nil {
					if !strings.Contains(err.Error(), "larger than the maximum file size") {
						t.Error(err)
					}
					return
				}
				defer remove()
				if _, err := os.Stat(filepath.Join(complete, "Chart.yaml")); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestMissingDependency_IsFetched(t *testing.T) {
	served := &recorder{require: true, Handler: http.FileServer(http.Dir(repository(t, "1.0.0", "1.2.0")))}
	web := serve(t, served)
	oci := "oci://" + serveOCI(t, private, "1.0.0", "1.2.0") + "/team"
	for name, test := range map[string]struct {
		repository string
		allow      func(string) bool
		fails      string
	}{
		"chart repository":                           {web, allow(web), ""},
		"OCI registry":                               {oci, allow(oci), ""},
		"folder":                                     {"file://../web", nil, ""},
		"folder that does not exist":                 {"file://../gone", nil, "no such file"},
		"folder that is not a chart":                 {"file://..", nil, "Chart.yaml file is missing"},
		"repository that is not allowed":             {web, allow("http://elsewhere"), "401"},
		"registry that is not allowed":               {oci, allow("oci://elsewhere"), "credential not found"},
		"no repository is allowed":                   {web, nil, "401"},
		"alias, which only a configuration resolves": {`"@stable"`, nil, "no repository definition"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{
				"app/Chart.yaml": parent + test.repository,
				"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2.0\n",
			})
			auth := login()
			auth.BasicHTTP, auth.Allow = true, test.allow
			var progress bytes.Buffer
			before := files(t, dir)
			complete, remove, err := charts.Complete(t.Context(), filepath.Join(dir, "app"), auth, &progress)
			if diff := cmp.Diff(before, files(t, dir)); diff != "" {
				t.Errorf("the source has changed (-want +got):\n%s", diff)
			}
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error()+progress.String(), test.fails) {
					t.Errorf("error %v, progress:\n%s", err, progress.String())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			found := files(t, complete)
			if found["charts/web-1.2.0.tgz"] == "" || found["Chart.lock"] == "" || progress.Len() == 0 || len(found) != 3 {
				t.Fatalf("error %v, files %v, progress:\n%s", err, found, progress.String())
			}
			progress.Reset()
			again, _, err := charts.Complete(t.Context(), complete, charts.Auth{}, &progress)
			if err != nil || again != complete || progress.Len() != 0 {
				t.Errorf("second run: folder %s, error %v, progress %s", again, err, progress.String())
			}
			remove()
			if _, err := os.Stat(complete); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the copy is not removed: error %v", err)
			}
		})
	}
}

func TestChartThatCannotBeLoaded_Fails(t *testing.T) {
	const leaf = "apiVersion: v1\nname: app\nversion: 0.1.0\n"
	outside := t.TempDir()
	write(t, outside, map[string]string{"Chart.yaml": leaf})
	for name, test := range map[string]struct {
		content map[string]string
		links   map[string]string
		want    string
	}{
		"no chart":         {map[string]string{"Chart.yaml": "x"}, nil, "loading chart"},
		"link out of it":   {map[string]string{"Chart.yaml": parent + "file://web"}, map[string]string{"l": outside}, `symlink "l"`},
		"link to a folder": {map[string]string{"Chart.yaml": parent + "file://web"}, map[string]string{"l": "."}, `symlink "l"`},
		"Chart.yaml is a link out of it": {
			map[string]string{"x": ""}, map[string]string{"Chart.yaml": filepath.Join(outside, "Chart.yaml")}, `"Chart.yaml" of the chart: `,
		},
		"requirements.yaml is a link out of it": {
			map[string]string{"Chart.yaml": leaf}, map[string]string{"requirements.yaml": filepath.Join(outside, "Chart.yaml")}, `"requirements.yaml" of the chart: `,
		},
		"dependency in requirements.yaml": {
			map[string]string{"Chart.yaml": leaf, "requirements.yaml": "dependencies: [{name: web, version: 1.x.x, repository: \"file://gone\"}]"}, nil, "gone",
		},
		"requirements.yaml that is too large": {
			map[string]string{"Chart.yaml": leaf, "requirements.yaml": strings.Repeat("#", 6<<20)}, nil, "larger than the maximum file size",
		},
		"link in a dependency": {
			map[string]string{"Chart.yaml": parent + "file://web", "web/Chart.yaml": "name: web"}, map[string]string{"web/l": ".."}, `symlink "web/l"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, test.content)
			for link, to := range test.links {
				if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := charts.Complete(t.Context(), dir, charts.Auth{}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
