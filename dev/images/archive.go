package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
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
	names := map[string]string{AnnotationName: archived.Name, AnnotationRefName: reference.TagStr()}
	if err := replaceFile(file, func(out io.Writer) error { return writeArchive(out, index, names) }); err != nil {
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

// writeArchive writes an OCI archive: a folder in the layout of OCI as a tar.
func writeArchive(out io.Writer, index v1.ImageIndex, names map[string]string) error {
	folder, err := os.MkdirTemp("", "fleet-images-")
	if err != nil {
		return fmt.Errorf("creating a directory for the archive: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // leftovers are in the system's temporary directory
	content, err := layout.Write(folder, empty.Index)
	if err == nil {
		err = content.AppendIndex(index, layout.WithAnnotations(names))
	}
	if err != nil {
		return fmt.Errorf("writing the content of the archive: %w", err)
	}
	blobs, err := fs.Glob(os.DirFS(folder), "blobs/*/*") // sorted
	writer := tar.NewWriter(out)
	// These files come first, for programs that read the archive as a stream.
	for _, name := range append([]string{"oci-layout", "index.json"}, blobs...) {
		err = errors.Join(err, addToArchive(writer, folder, name))
	}
	if err := errors.Join(err, writer.Close()); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// addToArchive adds a file of a folder, without its time.
func addToArchive(writer *tar.Writer, folder, name string) error {
	content, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // below a folder of ours
	if err == nil {
		err = writer.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR,
		})
	}
	if err == nil {
		_, err = writer.Write(content)
	}
	if err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return nil
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
