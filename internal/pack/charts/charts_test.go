package charts_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

// packChart writes the archive of a small chart and returns its path.
func packChart(t *testing.T, dir, name, version string) string {
	t.Helper()
	path, err := chartutil.Save(&chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: name, Version: version, Description: "from " + version},
		Templates: []*chart.File{{Name: "templates/cm.yaml", Data: []byte("kind: ConfigMap\n")}},
	}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// repository returns a folder with an index and archives of the chart web.
func repository(t *testing.T, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, version := range versions {
		packChart(t, dir, "web", version)
	}
	writeIndex(t, dir, "")
	return dir
}

func writeIndex(t *testing.T, dir, base string) {
	t.Helper()
	index, err := repo.IndexDirectory(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	if err := index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// files returns all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if info.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			found[name] = "-> " + to
			return err
		}
		data, err := os.ReadFile(path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestChartRepository_SelectsTheHighestVersionThatFits(t *testing.T) {
	url := serve(t, http.FileServer(http.Dir(repository(t, "1.0.0", "1.1.4", "1.2.0", "1.3.0-rc.1"))))
	for name, test := range map[string]struct{ version, want string }{
		"no version: pre-releases are skipped": {"", "1.2.0"},
		"constraint":                           {"1.1.x", "1.1.4"},
		"exact version":                        {"1.0.0", "1.0.0"},
		"exact pre-release":                    {"1.3.0-rc.1", "1.3.0-rc.1"},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "chart")
			err := charts.Fetch(t.Context(), charts.Source{Repo: url + "/", Chart: "web", Version: test.version}, to)
			if err != nil {
				t.Fatal(err)
			}
			found := files(t, to)
			if !strings.Contains(found["web/Chart.yaml"], "from "+test.want) || found["web/templates/cm.yaml"] == "" {
				t.Errorf("files: %v", found)
			}
		})
	}
}

// recorder is a server that requires credentials, and records which it gets.
type recorder struct {
	http.Handler
	require bool
	got     []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	user, password, _ := request.BasicAuth()
	r.got = append(r.got, user+":"+password)
	if r.require && password != "secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.Handler.ServeHTTP(w, request)
}

func login() charts.Auth { return charts.Auth{Username: "me", Password: "secret"} }

func TestCredentials_AreSentOnlyToTheHostOfTheRepository(t *testing.T) {
	dir := repository(t, "1.0.0")
	elsewhere := &recorder{Handler: http.FileServer(http.Dir(dir))}
	elsewhereURL := serve(t, elsewhere)
	for name, test := range map[string]struct {
		base     string // of the archives' URLs in the index
		redirect bool   // of the archive
		sent     int    // requests with credentials to the other server
		own      int    // requests with credentials to the own server
	}{
		"relative URL":               {"", false, 0, 2},
		"other host in the index":    {elsewhereURL, false, 0, 1},
		"redirect to another server": {"", true, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere.got = nil
			writeIndex(t, dir, test.base)
			own := &recorder{require: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.redirect && strings.HasSuffix(r.URL.Path, ".tgz") {
					http.Redirect(w, r, elsewhereURL+r.URL.Path, http.StatusFound)
					return
				}
				http.FileServer(http.Dir(dir)).ServeHTTP(w, r)
			})}
			source := charts.Source{Repo: serve(t, own), Chart: "web", Auth: login()}
			if err := charts.Fetch(t.Context(), source, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			if got := count(own.got, "me:secret"); got != test.own {
				t.Errorf("the own server got %v", own.got)
			}
			if got := count(elsewhere.got, "me:secret"); got != test.sent {
				t.Errorf("the other server got %v", elsewhere.got)
			}
		})
	}
}

func count(all []string, want string) int {
	n := 0
	for _, one := range all {
		if one == want {
			n++
		}
	}
	return n
}

func TestFailure_SaysWhatIsWrongWithoutSecrets(t *testing.T) {
	dir := repository(t, "1.0.0")
	private := serve(t, &recorder{require: true, Handler: http.FileServer(http.Dir(dir))})
	other := serve(t, &recorder{require: true, Handler: http.NotFoundHandler()})
	index := t.TempDir()
	packChart(t, index, "web", "1.0.0")
	writeIndex(t, index, other)
	public := serve(t, http.FileServer(http.Dir(index)))
	growing := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "apiVersion: v1\nx: &x \""+strings.Repeat("x", 1000)+"\"\nentries: {web: ["+strings.Repeat("{name: web, description: *x},", 1000)+"]}\n")
	}))
	address := strings.Replace(private, "http://", "http://me:hunter2@", 1)
	for name, test := range map[string]struct {
		source  charts.Source
		want    string
		resolve bool
	}{
		"index: credentials are missing": {
			charts.Source{Repo: private, Chart: "web", Version: "1.0.0"},
			"failed to resolve URL of repo=" + private + " chart=web version=1.0.0: failed to read helm repo from " + private + "/index.yaml, error code: 401", true,
		},
		"no version fits": {
			charts.Source{Repo: private, Chart: "web", Version: ">= 9", Auth: login()},
			"failed to resolve URL of repo=" + private + " chart=web version=>= 9: no chart version found for web->= 9", true,
		},
		"password in the address of the repository": {
			charts.Source{Repo: address, Chart: "web", Version: "1.0.0"},
			"failed to resolve URL of repo=" + strings.Replace(address, "hunter2", "redacted", 1) + " chart=web version=1.0.0: failed to read helm repo from " +
				strings.Replace(address, "hunter2", "redacted", 1) + "/index.yaml, error code: 401", true,
		},
		"index that grows": {
			charts.Source{Repo: growing, Chart: "web"}, "reading the index of the chart repository: the YAML is too large: with its aliases expanded, it contains too much", true,
		},
		"not a URL": {
			charts.Source{Repo: "stable", Chart: "web"},
			"failed to resolve URL of repo=stable chart=web version=: stable is not the URL of a chart repository: it must begin with http://, https:// or oci://", true,
		},
		"password in the address of an archive": {
			charts.Source{Chart: address + "/web.tgz"},
			`retrieving file from "` + strings.Replace(address, "hunter2", "redacted", 1) + `/web.tgz": bad response code: 401`, false,
		},
		"credentials are withheld": {
			charts.Source{Repo: public, Chart: "web", Auth: login()},
			`retrieving file from "` + other + `/web-1.0.0.tgz": bad response code: 401: the credentials were not sent to ` +
				strings.TrimPrefix(other, "http://") + ", because they belong to the host of the chart repository", false,
		},
		"checksum does not match": {
			charts.Source{Chart: private + "/index.yaml?checksum=md5:00", Auth: login()},
			`retrieving file from "` + private + `/index.yaml?checksum=md5:00": checksum mismatch for "` + private + `/index.yaml": expected md5:00, got`, false,
		},
		"folder is missing": {
			charts.Source{Chart: "./no-such-folder", Folder: "/nowhere"},
			`retrieving file from "./no-such-folder": stat /nowhere/no-such-folder: no such file or directory`, false,
		},
		"CA bundle is empty": {
			charts.Source{Chart: private + "/web.tgz", Auth: charts.Auth{CABundle: []byte("x")}}, "the CA bundle contains no certificate in PEM", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := charts.Fetch(t.Context(), test.source, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error: %v\nwant:  %s", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the password: %v", err)
			}
			if resolve := (*charts.ResolveError)(nil); errors.As(err, &resolve) != test.resolve {
				t.Errorf("%T, want a ResolveError: %v", err, test.resolve)
			}
		})
	}
}

func TestServerThatDoesNotAnswer_EndsWithTheContext(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	url := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		select {
		case <-stop:
		case <-request.Context().Done():
		}
	}))
	for name, source := range map[string]charts.Source{
		"repository": {Repo: url, Chart: "web"},
		"archive":    {Chart: url + "/web.tgz"},
		"git":        {Chart: "git::" + url + "/web.git"},
		"OCI":        {Repo: strings.Replace(url, "http", "oci", 1) + "/web", Auth: charts.Auth{BasicHTTP: true}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := charts.Fetch(ctx, source, t.TempDir()); err == nil || ctx.Err() == nil {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestLocalChart_IsCopied(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, map[string]string{"charts/web/Chart.yaml": "name: web", "charts/web/templates/a.yaml": "a", "other/b": "b"})
	packed := packChart(t, folder, "web", "1.0.0")
	for name, test := range map[string]struct{ chart, file, fails string }{
		"folder":                {"./charts", "web/Chart.yaml", ""},
		"folder in a folder":    {"charts//web", "templates/a.yaml", ""},
		"absolute folder":       {folder + "/charts", "web/Chart.yaml", ""},
		"archive":               {packed, "web/Chart.yaml", ""},
		"folder in an archive":  {packed + "//web", "Chart.yaml", ""},
		"missing folder in one": {"charts//app", "", `folder "app" does not exist`},
		"file":                  {"other/b", "b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			err := charts.Fetch(t.Context(), charts.Source{Chart: test.chart, Folder: folder}, to)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("error %v", err)
				}
				return
			}
			if found := files(t, to); err != nil || found[test.file] == "" {
				t.Errorf("error %v, files %v", err, found)
			}
		})
	}
	if err := os.Symlink("Chart.yaml", filepath.Join(folder, "charts/web/link")); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := charts.Fetch(t.Context(), charts.Source{Chart: "./charts", Folder: folder}, to); err != nil || files(t, to)["web/link"] != "-> Chart.yaml" {
		t.Errorf("link: error %v", err)
	}
	if err := charts.Fetch(t.Context(), charts.Source{Chart: "charts//web", Folder: folder}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("link after //: error %v", err)
	}
}

func write(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
