package images

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

// small returns an image with one file.
func small(change func(*Image)) Image {
	image := Image{
		Name: "registry.example.com/x/small:v1", Entrypoint: []string{"/run"},
		Variants: []Variant{{Platform: "linux/amd64", Files: []File{{Path: "/run", Mode: 0o755, Content: []byte("x")}}}},
	}
	if change != nil {
		change(&image)
	}
	return image
}

func TestArchive_MatchesTheGolden(t *testing.T) {
	file := func(f File) func(*Image) { return func(i *Image) { i.Files = append(i.Files, f) } }
	tests := map[string]struct {
		change func(*Image)
		golden string
		err    string
	}{
		"one file, no user": {golden: "one-file"},
		"all fields": {
			golden: "everything",
			change: func(i *Image) {
				i.User, i.Env, i.Labels = "1:2", []string{"A=b"}, map[string]string{"org.opencontainers.image.title": "small", "org.opencontainers.image.version": "v1"}
				i.Files = []File{
					{Path: "/z/deep/er/file", Mode: 0o640, Owner: 7, Content: []byte("1")},
					{Path: "/z/deep", Mode: fs.ModeDir | 0o700, Owner: 7},
					{Path: "/shared", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
					{Path: "/a-b", Mode: 0o644},
					{Path: "/a/b", Mode: 0o644},
				}
			},
		},
		"no platform: error":                   {change: func(i *Image) { i.Variants = nil }, err: "has no platform: add one, such as linux/amd64"},
		"platform without architecture: error": {change: func(i *Image) { i.Variants[0].Platform = "amd64" }, err: `"amd64" is not a valid platform: use the form linux/amd64`},
		"platform with a variant: error":       {change: func(i *Image) { i.Variants[0].Platform = "linux/arm/v7" }, err: `"linux/arm/v7" is not a valid platform`},
		"no name: error":                       {change: func(i *Image) { i.Name = "" }, err: `"" is not a valid image name`},
		"relative path: error":                 {change: file(File{Path: "run"}), err: `"run" is not a valid path: use an absolute path such as /usr/bin/program`},
		"path with ..: error":                  {change: file(File{Path: "/a/../b"}), err: `"/a/../b" is not a valid path`},
		"path /: error":                        {change: file(File{Path: "/"}), err: `"/" is not a valid path`},
		"duplicate file: error": {
			change: func(i *Image) { i.Variants[0].Files = append(i.Variants[0].Files, i.Variants[0].Files[0]) }, err: "/run is listed twice: remove one",
		},
		"file used as a directory: error": {
			change: func(i *Image) { i.Variants[0].Files = append(i.Variants[0].Files, File{Path: "/run/below"}) }, err: "/run/below is in /run, which is not a directory",
		},
		"missing source file: error":      {change: file(File{Path: "/b", From: "/nowhere/b"}), err: "source file /nowhere/b of /b does not exist: build it first"},
		"directory as source file: error": {change: file(File{Path: "/b", From: os.TempDir()}), err: "reading the source file of /b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "small.tar")
			_, err := small(test.change).Archive(to, Form{})
			if wants(t, err, test.err); err != nil {
				if _, err := os.Stat(to); err == nil {
					t.Error("want no archive after an error")
				}
				return
			}
			content := open(t, to)
			_, index := content.one(t)
			golden.Expect(t, test.golden+".golden", content.tell(t, index.Manifests[0]))
		})
	}
}

func TestArchive_IsWrittenAtomically(t *testing.T) {
	t.Run("existing archive: is replaced, no temporary file is left", func(t *testing.T) {
		folder := t.TempDir()
		to := filepath.Join(folder, "small.tar")
		write(t, to, []byte("old"))
		if _, err := small(nil).Archive(to, Form{}); err != nil {
			t.Fatal(err)
		}
		open(t, to).one(t)
		if there, err := os.ReadDir(folder); err != nil || len(there) != 1 {
			t.Errorf("the directory contains %v (%v)", there, err)
		}
		if info, err := os.Stat(to); err != nil || info.Mode() != 0o644 {
			t.Errorf("the archive is %v (%v), want -rw-r--r--", info.Mode(), err)
		}
	})
	t.Run("missing directory: error names it", func(t *testing.T) {
		_, err := small(nil).Archive("/nowhere/small.tar", Form{})
		wants(t, err, "directory /nowhere does not exist: create it first")
	})
	t.Run("failed rename: no temporary file is left", func(t *testing.T) {
		folder := t.TempDir()
		to := filepath.Join(folder, "small.tar")
		if err := os.MkdirAll(filepath.Join(to, "full"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := small(nil).Archive(to, Form{})
		wants(t, err, "writing image registry.example.com/x/small:v1")
		if there, err := os.ReadDir(folder); err != nil || len(there) != 1 {
			t.Errorf("the directory contains %v (%v)", there, err)
		}
	})
}

func TestPlatforms_ShareTheCommonLayer(t *testing.T) {
	image := small(func(i *Image) {
		i.Files = []File{{Path: "/shared", Mode: 0o644, Content: []byte("shared")}}
		i.Variants = append(i.Variants, Variant{Platform: "linux/arm64", Files: i.Variants[0].Files})
	})
	to := filepath.Join(t.TempDir(), "small.tar")
	if _, err := image.Archive(to, Form{}); err != nil {
		t.Fatal(err)
	}
	content := open(t, to)
	// Two layers for both platforms, an index, two manifests, two configurations, the layout file and the list.
	if len(content) != 9 {
		t.Errorf("the archive contains %d files, want 9", len(content))
	}
}
