// Package images makes container images without a container engine: the project's own two, and for
// development any other made of a few files.
//
//	files ─► layers (sorted, without times) ─► an image per platform ─► one index ─► OCI archive ─► registry
//
// The same files give the same digests, on any machine and in any folder.
package images

import (
	"compress/gzip"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is an image to be made: what is alike on all platforms, and for each what is not.
type Image struct {
	// Name is a whole name with a tag, such as docker.io/fleethub/fleet:dev. Nodes find the image by it.
	Name string
	// Entrypoint is the command of a container that is given none.
	Entrypoint []string
	// User is "uid:gid", in numbers: a name cannot be proven not to be root. Empty: root.
	User string
	// Env are variables, "NAME=value".
	Env []string
	// Labels describe the image; by custom their keys start with org.opencontainers.image.
	Labels map[string]string
	// Files are alike on all platforms: a layer of their own, which images can share.
	Files []File
	// Variants are the platforms, in the order of the index; at least one.
	Variants []Variant
}

// Variant is what an image holds on one platform.
type Variant struct {
	// Platform is written os/architecture: linux/amd64.
	Platform string
	// Files beside those of the Image.
	Files []File
}

// File is one file or folder of an image. Folders above it come by themselves: 0755, root's.
type File struct {
	// Path in the image, absolute.
	Path string
	// Mode has the permissions; with fs.ModeDir it is a folder. fs.ModeSticky is kept.
	Mode fs.FileMode
	// Owner is the uid and the gid.
	Owner int
	// Content of the file, unless From is set.
	Content []byte
	// From is the file on this machine to take the content of.
	From string
	// Link makes it a symbolic link to that path; it has no content then.
	Link string
}

// Form is how images are packed. The zero value is what is released.
type Form struct {
	// Created is the time written into the images; zero: the start of 1970. Files always have that one, so that
	// layers do not differ by it.
	Created time.Time
	// Fast packs less tightly in a third of the time, for images that stay on this machine.
	Fast bool
}

func (f Form) level() int {
	if f.Fast {
		return gzip.BestSpeed
	}
	return 6 // 9 takes three times as long and saves one percent
}

func (f Form) created() v1.Time {
	if f.Created.IsZero() {
		return v1.Time{Time: time.Unix(0, 0).UTC()}
	}
	return v1.Time{Time: f.Created.UTC()}
}

// Index makes the image for all its platforms.
func (i Image) Index(form Form) (v1.ImageIndex, error) {
	if _, err := Reference(i.Name); err != nil {
		return nil, err
	}
	if len(i.Variants) == 0 {
		return nil, fmt.Errorf("image %s is for no platform: name one, such as linux/amd64", i.Name)
	}
	var common []v1.Layer
	if len(i.Files) > 0 {
		layer, err := layerOf(i.Files, form)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", i.Name, err)
		}
		common = append(common, layer)
	}
	var index v1.ImageIndex = empty.Index
	for _, variant := range i.Variants {
		image, platform, err := i.variant(variant, common, form)
		if err != nil {
			return nil, fmt.Errorf("image %s for %s: %w", i.Name, variant.Platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &platform},
		})
	}
	return index, nil
}

// variant makes the image for one platform.
func (i Image) variant(variant Variant, common []v1.Layer, form Form) (v1.Image, v1.Platform, error) {
	platform, err := parsePlatform(variant.Platform)
	if err != nil {
		return nil, v1.Platform{}, err
	}
	layers := slices.Clone(common)
	if len(variant.Files) > 0 {
		layer, err := layerOf(variant.Files, form)
		if err != nil {
			return nil, v1.Platform{}, err
		}
		layers = append(layers, layer)
	}
	var image v1.Image
	image = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Created: form.created(),
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: i.User, Env: i.Env, Entrypoint: i.Entrypoint, Labels: i.Labels, WorkingDir: "/",
		},
	})
	if err != nil {
		return nil, v1.Platform{}, fmt.Errorf("writing its configuration: %w", err)
	}
	for _, layer := range layers {
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: form.created(), CreatedBy: "dev/images"},
		})
		if err != nil {
			return nil, v1.Platform{}, fmt.Errorf("adding a layer: %w", err)
		}
	}
	return image, platform, nil
}

// parsePlatform reads os/architecture.
func parsePlatform(text string) (v1.Platform, error) {
	os, architecture, ok := strings.Cut(text, "/")
	if !ok || os == "" || architecture == "" || strings.Contains(architecture, "/") {
		return v1.Platform{}, fmt.Errorf("%q is no platform: write it as linux/amd64", text)
	}
	return v1.Platform{OS: os, Architecture: architecture}, nil
}

// nameOfImage is the grammar of names with a tag, tighter than what go-containerregistry lets pass: whatever it lets
// pass, containerd and registries have to take.
var nameOfImage = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// Reference checks an image's name: the registry may be left out for docker.io, the tag may not.
func Reference(image string) (name.Tag, error) {
	if !nameOfImage.MatchString(image) {
		return name.Tag{}, fmt.Errorf("%q is no name of an image: write it as registry/repository/name:tag, "+
			"the repository in small letters, the tag of letters, digits, '_', '.' and '-'", image)
	}
	reference, err := name.NewTag(image)
	if err != nil {
		return name.Tag{}, fmt.Errorf("%q is no name of an image: %w", image, err)
	}
	return reference, nil
}

// fullName is what container runtimes call an image: with its registry, docker.io by that name.
func fullName(reference name.Tag) string {
	return strings.Replace(reference.Name(), "index."+dockerHub+"/", dockerHub+"/", 1)
}

const dockerHub = "docker.io"
