package images

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// AnnotationName and AnnotationRefName name the image in an archive. containerd reads the first, other tools the
// second.
const (
	AnnotationName    = "io.containerd.image.name"
	AnnotationRefName = "org.opencontainers.image.ref.name"
)

// Archived describes an image in an archive.
type Archived struct {
	// Name is the full name of the image, with registry and tag.
	Name string `json:"name"`
	// Archive is the path of the file.
	Archive string `json:"archive"`
	// Digest is the digest of the index. A deployment for all platforms pins this digest.
	Digest string `json:"digest"`
	// Platforms are in the order of the index.
	Platforms []ArchivedPlatform `json:"platforms"`
}

// ArchivedPlatform describes the image of one platform in an archive.
type ArchivedPlatform struct {
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	// Compressed is the download size in bytes: layers, configuration and manifest.
	Compressed int64 `json:"compressed"`
	// Unpacked is the size of the files in bytes.
	Unpacked int64 `json:"unpacked"`
}

// Archive writes the image as an OCI archive and replaces an existing file. containerd (ctr images import),
// podman, skopeo and docker load can read it. The directory must exist.
func (i Image) Archive(file string, form Form) (Archived, error) {
	index, err := i.Index(form)
	if err != nil {
		return Archived{}, err
	}
	reference, err := Reference(i.Name)
	if err != nil {
		return Archived{}, err
	}
	archived := Archived{Name: fullName(reference), Archive: file}
	if err := archived.describe(index, i); err != nil {
		return Archived{}, fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	content := blobs{}
	if err := content.addIndex(index); err != nil {
		return Archived{}, fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	if err := replaceFile(file, func(out io.Writer) error { return content.write(out, archived.Name, reference.TagStr(), index) }); err != nil {
		return Archived{}, fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	return archived, nil
}

// describe sets the digests and sizes from the image's index.
func (a *Archived) describe(index v1.ImageIndex, image Image) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest of the index: %w", err)
	}
	a.Digest = digest.String()
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the manifest of the index: %w", err)
	}
	for n, child := range manifest.Manifests {
		made, err := index.Image(child.Digest)
		if err != nil {
			return fmt.Errorf("reading image %s: %w", child.Digest, err)
		}
		parts, err := made.Manifest()
		if err != nil {
			return fmt.Errorf("reading the manifest of %s: %w", child.Digest, err)
		}
		size := child.Size + parts.Config.Size
		for _, layer := range parts.Layers {
			size += layer.Size
		}
		unpacked, err := sizeOf(slices.Concat(image.Files, image.Variants[n].Files))
		if err != nil {
			return err
		}
		a.Platforms = append(a.Platforms, ArchivedPlatform{
			Platform: image.Variants[n].Platform, Digest: child.Digest.String(), Compressed: size, Unpacked: unpacked,
		})
	}
	return nil
}

// sizeOf returns the total size of the files in bytes.
func sizeOf(files []File) (int64, error) {
	var sum int64
	for _, file := range files {
		sum += int64(len(file.Content))
		if file.From != "" {
			info, err := os.Stat(file.From)
			if err != nil {
				return 0, fmt.Errorf("reading the size of the source of %s: %w", file.Path, err)
			}
			sum += info.Size()
		}
	}
	return sum, nil
}

// replaceFile writes a temporary file and renames it. A concurrent reader never sees an incomplete file.
func replaceFile(file string, write func(io.Writer) error) error {
	beside, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("directory %s does not exist: create it first: %w", filepath.Dir(file), err)
	}
	if err != nil {
		return fmt.Errorf("creating a file: %w", err)
	}
	err = errors.Join(write(beside), beside.Chmod(0o644), beside.Close())
	if err == nil {
		err = os.Rename(beside.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(beside.Name()))
	}
	return nil
}
