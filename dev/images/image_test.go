package images

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

// small is an image of one file.
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

func TestArchive(t *testing.T) {
	file := func(f File) func(*Image) { return func(i *Image) { i.Files = append(i.Files, f) } }
	tests := map[string]struct {
		change func(*Image)
		golden string
		err    string
	}{
		"one file, and nothing about the user": {golden: "one-file"},
		"all there is": {
			golden: "everything",
			change: func(i *Image) {
				i.User, i.Env, i.Labels = "1:2", []string{"A=b"}, map[string]string{"org.opencontainers.image.title": "small", "org.opencontainers.image.version": "v1"}
				i.Files = []File{
					{Path: "/z/deep/er/file", Mode: 0o640, Owner: 7, Content: []byte("1")},
					{Path: "/z/deep", Mode: fs.ModeDir | 0o700, Owner: 7},
					{Path: "/shared", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
					{Path: "/also-run", Link: "/run"},
					{Path: "/a-b", Mode: 0o644},
					{Path: "/a/b", Mode: 0o644},
				}
			},
		},
		"for no platform":         {change: func(i *Image) { i.Variants = nil }, err: "is for no platform: name one, such as linux/amd64"},
		"for what is no platform": {change: func(i *Image) { i.Variants[0].Platform = "amd64" }, err: `"amd64" is no platform: write it as linux/amd64`},
		"for too much of one":     {change: func(i *Image) { i.Variants[0].Platform = "linux/arm/v7" }, err: `"linux/arm/v7" is no platform`},
		"without a name":          {change: func(i *Image) { i.Name = "" }, err: `"" is no name of an image`},
		"with a relative path":    {change: file(File{Path: "run"}), err: `"run" is no path in an image: write it in full, as /usr/bin/program`},
		"with a path that climbs": {change: file(File{Path: "/a/../b"}), err: `"/a/../b" is no path in an image`},
		"with the root itself":    {change: file(File{Path: "/"}), err: `"/" is no path in an image`},
		"with a file twice": {
			change: func(i *Image) { i.Variants[0].Files = append(i.Variants[0].Files, i.Variants[0].Files[0]) }, err: "/run is there twice: leave one out",
		},
		"with a file as a folder": {
			change: func(i *Image) { i.Variants[0].Files = append(i.Variants[0].Files, File{Path: "/run/below"}) }, err: "/run/below is in /run, which is a file",
		},
		"of a file that is missing": {change: file(File{Path: "/b", From: "/nowhere/b"}), err: "/nowhere/b, to become /b, is not there: build it first"},
		"of a folder":               {change: file(File{Path: "/b", From: os.TempDir()}), err: "reading what is to become /b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "small.tar")
			_, err := small(test.change).Archive(to, Form{})
			if wants(t, err, test.err); err != nil {
				if _, err := os.Stat(to); err == nil {
					t.Error("there is an archive nevertheless")
				}
				return
			}
			content := open(t, to)
			_, index := content.one(t)
			golden.Expect(t, test.golden+".golden", content.tell(t, index.Manifests[0]))
		})
	}
}

func TestWhereTheArchiveGoes(t *testing.T) {
	t.Run("in place of an older one, with nothing left beside it", func(t *testing.T) {
		folder := t.TempDir()
		to := filepath.Join(folder, "small.tar")
		write(t, to, []byte("old"))
		if _, err := small(nil).Archive(to, Form{}); err != nil {
			t.Fatal(err)
		}
		open(t, to).one(t)
		if there, err := os.ReadDir(folder); err != nil || len(there) != 1 {
			t.Errorf("the folder holds %v (%v)", there, err)
		}
		if info, err := os.Stat(to); err != nil || info.Mode() != 0o644 {
			t.Errorf("the archive is %v (%v), want -rw-r--r--", info.Mode(), err)
		}
	})
	t.Run("a folder that is missing is named", func(t *testing.T) {
		_, err := small(nil).Archive("/nowhere/small.tar", Form{})
		wants(t, err, "the folder /nowhere is not there: make it first")
	})
	t.Run("what cannot be replaced leaves nothing behind", func(t *testing.T) {
		folder := t.TempDir()
		to := filepath.Join(folder, "small.tar")
		if err := os.MkdirAll(filepath.Join(to, "full"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := small(nil).Archive(to, Form{})
		wants(t, err, "writing image registry.example.com/x/small:v1")
		if there, err := os.ReadDir(folder); err != nil || len(there) != 1 {
			t.Errorf("the folder holds %v (%v)", there, err)
		}
	})
}

func TestPlatformsShareWhatIsAlike(t *testing.T) {
	image := small(func(i *Image) {
		i.Files = []File{{Path: "/shared", Mode: 0o644, Content: []byte("shared")}}
		i.Variants = append(i.Variants, Variant{Platform: "linux/arm64", Files: i.Variants[0].Files})
	})
	to := filepath.Join(t.TempDir(), "small.tar")
	if _, err := image.Archive(to, Form{}); err != nil {
		t.Fatal(err)
	}
	content := open(t, to)
	// Two layers for both, and an index, two manifests, two configurations, the marker and the list.
	if len(content) != 9 {
		t.Errorf("the archive holds %d files, want 9", len(content))
	}
}
