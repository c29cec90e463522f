package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// host starts a registry in memory behind guard, on loopback, and returns its host and port.
func host(t *testing.T, guard func(http.Handler) http.Handler) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if guard != nil {
		handler = guard(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// made returns both archives for a registry.
func made(t *testing.T, repo string) []Archived {
	t.Helper()
	_, archives := build(t, func(o *Options) { o.Repo = repo })
	return archives
}

func TestPush_CopiesAllPlatforms(t *testing.T) {
	repo := host(t, nil) + "/some/where"
	for _, archived := range made(t, repo) {
		pushed, err := Push(t.Context(), archived.Archive, PushOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Pushed{{Name: archived.Name, Digest: archived.Digest}}, pushed); diff != "" {
			t.Errorf("pushed images differ (-want +got):\n%s", diff)
		}
		checkRegistry(t, archived)
		if _, err := Push(t.Context(), archived.Archive, PushOptions{}); err != nil {
			t.Errorf("pushing again: %v", err)
		}
	}
}

// checkRegistry pulls every platform of an image by its tag, as a node does.
func checkRegistry(t *testing.T, archived Archived) {
	t.Helper()
	reference, err := name.ParseReference(archived.Name)
	if err != nil {
		t.Fatal(err)
	}
	content := open(t, archived.Archive)
	_, index := content.one(t)
	for _, want := range index.Manifests {
		image, err := remote.Image(reference, remote.WithPlatform(*want.Platform), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		got := whole(t, image)
		manifest := decode[v1.Manifest](t, content.blob(t, want))
		wanted := []string{string(content.blob(t, want)), string(content.blob(t, manifest.Config))}
		for _, layer := range manifest.Layers {
			wanted = append(wanted, string(content.blob(t, layer)))
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s for %s differs in the registry (-archive +registry):\n%s", archived.Name, want.Platform, diff)
		}
	}
}

// whole returns all parts of an image: manifest, configuration and layers.
func whole(t *testing.T, image v1.Image) []string {
	t.Helper()
	manifest, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{string(manifest), string(config)}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		compressed, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(compressed)
		if err := errors.Join(err, compressed.Close()); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, string(raw))
	}
	return parts
}

// locked requires a password.
func locked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func TestPush_UsesStoredCredentials(t *testing.T) {
	tests := map[string]struct{ user, err string }{
		"stored credentials: used":                    {user: "me"},
		"no credentials: error names docker login":    {err: "log in with `docker login "},
		"wrong credentials: error names docker login": {user: "you", err: "log in with `docker login "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			address := host(t, locked)
			folder := t.TempDir()
			t.Setenv("DOCKER_CONFIG", folder)
			if test.user != "" {
				auth := authn.FromConfig(authn.AuthConfig{Username: test.user, Password: "secret"})
				config, err := auth.Authorization()
				if err != nil {
					t.Fatal(err)
				}
				encoded, err := config.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(folder, "config.json"), []byte(`{"auths":{"`+address+`":`+string(encoded)+`}}`))
			}
			_, err := Push(t.Context(), made(t, address+"/x")[0].Archive, PushOptions{})
			wants(t, err, test.err)
		})
	}
}

func TestPushToPlainHTTP_RequiresInsecure(t *testing.T) {
	tests := map[string]struct {
		insecure bool
		err      string
	}{
		"insecure: allowed":      {insecure: true},
		"not insecure: rejected": {err: "registry registry.example.com uses plain HTTP: allow it with INSECURE=1 (--insecure)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			address := host(t, nil)
			// The transport connects the name with the test's registry. A loopback name could not be used,
			// because plain HTTP is always allowed there.
			transport := http.DefaultTransport.(*http.Transport).Clone()
			dial := net.Dialer{}
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dial.DialContext(ctx, network, address)
			}
			transport.Proxy = nil
			pushed, err := Push(t.Context(), made(t, "registry.example.com/x")[0].Archive, PushOptions{Insecure: test.insecure, Transport: transport})
			if wants(t, err, test.err); err == nil && pushed[0].Name != "registry.example.com/x/fleet:dev" {
				t.Errorf("pushed as %s", pushed[0].Name)
			}
		})
	}
}

func TestInvalidArchive_IsNotPushed(t *testing.T) {
	// tarOf returns a tar with one file.
	tarOf := func(name, content string) []byte {
		var out bytes.Buffer
		writer := tar.NewWriter(&out)
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, content); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	tests := map[string]struct {
		content []byte
		err     string
	}{
		"missing file":                         {err: "create it with `make images`"},
		"not an archive":                       {content: []byte(strings.Repeat("no archive ", 100)), err: "is not an archive: create it with `make images`"},
		"not an OCI archive":                   {content: tarOf("hello", "world"), err: "is not an OCI archive: create it with `make images`"},
		"path outside of the target directory": {content: tarOf("../escaped", "x"), err: `contains "../escaped", which is outside of the target directory`},
		"image without a name":                 {content: tarOf("index.json", `{"manifests":[{"digest":"sha256:`+strings.Repeat("0", 64)+`"}]}`), err: `"" is not a valid image name`},
		"missing blob": {
			content: tarOf("index.json", `{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:`+strings.Repeat("0", 64)+
				`","annotations":{"io.containerd.image.name":"127.0.0.1:1/x/y:z"}}]}`),
			err: "reading image 127.0.0.1:1/x/y:z",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file := filepath.Join(folder, "in", "archive.tar")
			if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if test.content != nil {
				write(t, file, test.content)
			}
			_, err := Push(t.Context(), file, PushOptions{})
			wants(t, err, test.err)
		})
	}
}
