package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

func TestIndex_CannotNameARepositoryOfThisMachine(t *testing.T) {
	dir := t.TempDir()
	repository, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repository.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "private"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Add("."); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Commit("x", &git.CommitOptions{Author: &object.Signature{When: time.Unix(1, 0)}}); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"git::file://" + dir, "git::" + dir, "file://" + dir, "ssh::git@127.0.0.1:x", "ftp://127.0.0.1/x"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "apiVersion: v1\nentries: {web: [{apiVersion: v2, name: web, version: 1.0.0, urls: [%q]}]}\n", address)
		}))
		to := filepath.Join(t.TempDir(), "to")
		err := Fetch(t.Context(), Source{Repo: server.URL, Chart: "web"}, to)
		server.Close()
		var resolving *ResolveError
		if !errors.As(err, &resolving) || !strings.Contains(err.Error(), "must begin with") {
			t.Errorf("%s: error %v", address, err)
		}
		if found, err := os.ReadDir(to); err == nil {
			t.Errorf("%s: files %v", address, found)
		}
	}
}

// Each layer of an image is within the limit.
func TestRegistry_CannotSendMoreThanTheLimitInSeveralLayers(t *testing.T) {
	const layers, size = 5, 300 << 10
	blobs, manifest := map[string][]byte{}, map[string]any{}
	descriptor := func(kind string, content []byte) map[string]any {
		hash := newHash("sha256")
		_, _ = hash.Write(content)
		digest := fmt.Sprintf("sha256:%x", hash.Sum(nil))
		blobs[digest] = content
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(content)}
	}
	all := []any{}
	for i := range layers {
		all = append(all, descriptor("application/vnd.cncf.helm.chart.content.v1.tar+gzip", []byte(strings.Repeat(fmt.Sprint(i), size))))
	}
	manifest["schemaVersion"], manifest["layers"] = 2, all
	manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
	manifest["config"] = descriptor("application/vnd.cncf.helm.config.v1+json", []byte(`{"name":"web","version":"1.0.0"}`))
	encoded, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	digest := descriptor("", encoded)["digest"].(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, name, _ := strings.Cut(r.URL.Path, "/team/web/")
		kind, name, _ := strings.Cut(name, "/")
		if kind == "manifests" {
			w.Header().Set("Content-Type", manifest["mediaType"].(string))
			w.Header().Set("Docker-Content-Digest", digest)
			name = digest
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(blobs[name])))
		_, _ = w.Write(blobs[name])
	}))
	defer server.Close()
	source := Source{Repo: "oci://" + strings.TrimPrefix(server.URL, "http://") + "/team/web", Version: "1.0.0", Auth: Auth{BasicHTTP: true}}
	err = fetch(t.Context(), source, t.TempDir(), unpack.Limits{Received: 1 << 20, Unpacked: 16 << 10, Memory: 1 << 20, Entries: 10})
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes received") {
		t.Errorf("error %v", err)
	}
}
