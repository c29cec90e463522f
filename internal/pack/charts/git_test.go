package charts_test

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

// gitRepository creates web.git with the branches master and next, the tag v1, and a commit that has neither.
func gitRepository(t *testing.T) (dir string, middle string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "web.git")
	repository, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repository.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	commit := func(content string) plumbing.Hash {
		write(t, dir, map[string]string{"charts/web/Chart.yaml": content, "README": "read me"})
		_ = os.Symlink("Chart.yaml", filepath.Join(dir, "charts/web/link"))
		if _, err := tree.Add("."); err != nil {
			t.Fatal(err)
		}
		author := &object.Signature{Name: "a", Email: "a@example.org", When: time.Unix(1, 0)}
		hash, err := tree.Commit(content, &git.CommitOptions{Author: author})
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	if _, err := repository.CreateTag("v1", commit("first"), nil); err != nil {
		t.Fatal(err)
	}
	middle = commit("middle").String()
	commit("master")
	if err := tree.Checkout(&git.CheckoutOptions{Branch: plumbing.NewBranchReferenceName("next"), Create: true}); err != nil {
		t.Fatal(err)
	}
	commit("next")
	if err := tree.Checkout(&git.CheckoutOptions{Branch: plumbing.NewBranchReferenceName("master")}); err != nil {
		t.Fatal(err)
	}
	return dir, middle
}

// serveGit serves a repository over HTTP, with the program that git has for it.
func serveGit(t *testing.T, dir string) *recorder {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("git is not installed")
	}
	backend := filepath.Join(strings.TrimSpace(string(path)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	return &recorder{require: true, Handler: &cgi.Handler{
		Path: backend,
		Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
	}}
}

func TestGitRepository_IsReadAtTheWantedRevision(t *testing.T) {
	dir, middle := gitRepository(t)
	url := serve(t, serveGit(t, dir))
	for name, test := range map[string]struct{ query, want string }{
		"default branch": {"", "master"},
		"branch":         {"?ref=next", "next"},
		"tag":            {"?ref=v1", "first"},
		"commit":         {"?ref=" + middle, "middle"},
		"depth":          {"?depth=2", "master"},
	} {
		for place, address := range map[string]string{"http": "git::" + url + "/web.git", "file": "git::file://" + dir} {
			t.Run(name+" over "+place, func(t *testing.T) {
				to := t.TempDir()
				err := charts.Fetch(t.Context(), charts.Source{Chart: address + test.query, Auth: login()}, to)
				if err != nil {
					t.Fatal(err)
				}
				found := files(t, to)
				if found["charts/web/Chart.yaml"] != test.want || found["charts/web/link"] != "-> Chart.yaml" || found["README"] != "read me" || len(found) != 3 {
					t.Errorf("files: %v", found)
				}
			})
		}
	}
	to := t.TempDir()
	if err := charts.Fetch(t.Context(), charts.Source{Chart: "git::" + url + "/web.git//charts/web", Auth: login()}, to); err != nil || len(files(t, to)) != 2 {
		t.Errorf("folder: error %v, files %v", err, files(t, to))
	}
}

func TestGitFailure_NamesTheCause(t *testing.T) {
	dir, _ := gitRepository(t)
	server := serveGit(t, dir)
	url := serve(t, server)
	redirecting := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, url+r.URL.RequestURI(), http.StatusFound)
	}))
	for name, test := range map[string]struct {
		chart string
		auth  charts.Auth
		want  string
	}{
		"no credentials":             {"git::" + url + "/web.git", charts.Auth{}, "authentication required"},
		"redirect to another server": {"git::" + redirecting + "/web.git", login(), "authentication required"},
		"unknown revision":           {"git::" + url + "/web.git?ref=none", login(), `resolving revision "none"`},
		"unknown folder":             {"git::" + url + "/web.git//none", login(), `folder "none" does not exist`},
		"unsupported scheme":         {"git::ftp://127.0.0.1/web.git", login(), `scheme "ftp"`},
		"key is not valid":           {"git::ssh://127.0.0.1/web.git", charts.Auth{SSHPrivateKey: []byte("x")}, "reading the SSH key"},
		"known hosts are not valid":  {"git::ssh://127.0.0.1/web.git", charts.Auth{SSHKnownHosts: []byte("x")}, "reading the known SSH hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			server.got = nil
			err := charts.Fetch(t.Context(), charts.Source{Chart: test.chart, Auth: test.auth}, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if name == "redirect to another server" && count(server.got, "me:secret") != 0 {
				t.Errorf("the other server got the credentials: %v", server.got)
			}
		})
	}
}
