// Package images builds container images without a container engine: the project's two images, and small images
// for development.
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

// Image describes an image to build: the parts that all platforms share, and a variant per platform.
type Image struct {
	// Name is the full name with a tag, for example docker.io/fleethub/fleet:dev. Nodes find the image by this
	// name.
	Name string
	// Entrypoint is the default command of a container.
	Entrypoint []string
	// User is "uid:gid" in numbers: kubelet cannot verify that a name is not root. Empty means root.
	User string
	// Env holds variables as "NAME=value".
	Env []string
	// Labels describe the image. By convention their keys start with org.opencontainers.image.
	Labels map[string]string
	// Files are the files of all platforms. They are a separate layer, which images can share.
	Files []File
	// Variants are the platforms, in the order of the index. At least one is required.
	Variants []Variant
}

// Variant describes the part of an image that is specific to a platform.
type Variant struct {
	// Platform is os/architecture, for example linux/amd64.
	Platform string
	// Files are added to the files of the Image.
	Files []File
}

// File is a file or a directory of an image. Missing parent directories are added with mode 0755 and owner root.
type File struct {
	// Path is the absolute path in the image.
	Path string
	// Mode contains the permissions. fs.ModeDir makes it a directory. fs.ModeSticky is kept.
	Mode fs.FileMode
	// Owner is the uid and the gid.
	Owner int
	// Content is the content of the file, unless From is set.
	Content []byte
	// From is the path of a file on this machine whose content is used.
	From string
}

// Form configures how images are packed. Releases use the zero value.
type Form struct {
	// Created is the creation time of the images. Zero means the start of 1970. Files always have that time, so
	// that it does not change their layers.
	Created time.Time
	// Fast compresses less in a third of the time, for images that stay on this machine.
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

// Index builds the image for all its platforms.
func (i Image) Index(form Form) (v1.ImageIndex, error) {
	if _, err := Reference(i.Name); err != nil {
		return nil, err
	}
	if len(i.Variants) == 0 {
		return nil, fmt.Errorf("image %s has no platform: add one, such as linux/amd64", i.Name)
	}
	var common []v1.Layer
	if len(i.Files) > 0 {
		layer, err := layerOf(i.Files, form)
		if err != nil {
			return nil, fmt.Errorf("building image %s: %w", i.Name, err)
		}
		common = append(common, layer)
	}
	var index v1.ImageIndex = empty.Index
	for _, variant := range i.Variants {
		image, platform, err := i.variant(variant, common, form)
		if err != nil {
			return nil, fmt.Errorf("building image %s for %s: %w", i.Name, variant.Platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &platform},
		})
	}
	return index, nil
}

// variant builds the image of one platform.
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

// parsePlatform parses os/architecture.
func parsePlatform(text string) (v1.Platform, error) {
	os, architecture, ok := strings.Cut(text, "/")
	if !ok || os == "" || architecture == "" || strings.Contains(architecture, "/") {
		return v1.Platform{}, fmt.Errorf("%q is not a valid platform: use the form linux/amd64", text)
	}
	return v1.Platform{OS: os, Architecture: architecture}, nil
}

// nameOfImage matches image names with a tag. It is stricter than go-containerregistry, so that containerd and
// registries accept every name that it matches.
var nameOfImage = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// Reference parses an image's name. The registry is optional and defaults to docker.io. The tag is required.
func Reference(image string) (name.Tag, error) {
	if !nameOfImage.MatchString(image) {
		return name.Tag{}, fmt.Errorf("%q is not a valid image name: write it as registry/repository/name:tag, "+
			"the repository in lower case, the tag of letters, digits, '_', '.' and '-'", image)
	}
	reference, err := name.NewTag(image)
	if err != nil {
		return name.Tag{}, fmt.Errorf("%q is not a valid image name: %w", image, err)
	}
	return reference, nil
}

// fullName returns the name that container runtimes use, with the registry. For Docker Hub the registry is
// docker.io.
func fullName(reference name.Tag) string {
	return strings.Replace(reference.Name(), "index."+dockerHub+"/", dockerHub+"/", 1)
}

const dockerHub = "docker.io"
