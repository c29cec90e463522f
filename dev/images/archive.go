package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The annotations by which what reads an archive names its image: containerd goes by the first, others by the
// second.
const (
	AnnotationName    = "io.containerd.image.name"
	AnnotationRefName = "org.opencontainers.image.ref.name"
)

// Archived is an image in an archive.
type Archived struct {
	// Name is whole, with registry and tag.
	Name string `json:"name"`
	// Archive is the file.
	Archive string `json:"archive"`
	// Digest is that of the index: what to pin in a deployment for all platforms.
	Digest string `json:"digest"`
	// Platforms in the order of the index.
	Platforms []ArchivedPlatform `json:"platforms"`
}

// ArchivedPlatform is one platform's image in an archive.
type ArchivedPlatform struct {
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	// Compressed is what a node downloads, in bytes: layers, configuration and manifest.
	Compressed int64 `json:"compressed"`
}

// Archive writes the image as an OCI archive, which `ctr images import`, podman, skopeo and `docker load` read, in
// place of what was there. The folder has to exist.
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
	if err := archived.describe(index); err != nil {
		return Archived{}, err
	}
	content := blobs{}
	if err := content.addIndex(index); err != nil {
		return Archived{}, fmt.Errorf("image %s: %w", i.Name, err)
	}
	if err := replaceFile(file, func(out io.Writer) error { return content.write(out, archived.Name, reference.TagStr(), index) }); err != nil {
		return Archived{}, fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	return archived, nil
}

// describe fills in what is known of an index.
func (a *Archived) describe(index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest of the index: %w", err)
	}
	a.Digest = digest.String()
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("manifest of the index: %w", err)
	}
	for _, child := range manifest.Manifests {
		image, err := index.Image(child.Digest)
		if err != nil {
			return fmt.Errorf("image %s: %w", child.Digest, err)
		}
		parts, err := image.Manifest()
		if err != nil {
			return fmt.Errorf("manifest of %s: %w", child.Digest, err)
		}
		size := child.Size + parts.Config.Size
		for _, layer := range parts.Layers {
			size += layer.Size
		}
		a.Platforms = append(a.Platforms, ArchivedPlatform{
			Platform: child.Platform.OS + "/" + child.Platform.Architecture, Digest: child.Digest.String(), Compressed: size,
		})
	}
	return nil
}

// blobs are the contents of an archive by digest.
type blobs map[v1.Hash][]byte

// addIndex adds an index and everything it refers to.
func (b blobs) addIndex(index v1.ImageIndex) error {
	raw, err := index.RawManifest()
	if err != nil {
		return fmt.Errorf("manifest of the index: %w", err)
	}
	if err := b.add(raw); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("manifest of the index: %w", err)
	}
	for _, child := range manifest.Manifests {
		image, err := index.Image(child.Digest)
		if err == nil {
			err = b.addImage(image)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", child.Digest, err)
		}
	}
	return nil
}

// addImage adds one platform's image.
func (b blobs) addImage(image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return fmt.Errorf("its manifest: %w", err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("its layers: %w", err)
	}
	for _, raw := range [][]byte{manifest, config} {
		if err := b.add(raw); err != nil {
			return err
		}
	}
	for _, layer := range layers {
		if err := b.addLayer(layer); err != nil {
			return err
		}
	}
	return nil
}

func (b blobs) addLayer(layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return fmt.Errorf("digest of a layer: %w", err)
	}
	if _, there := b[digest]; there {
		return nil // two platforms share it
	}
	compressed, err := layer.Compressed()
	if err != nil {
		return fmt.Errorf("layer %s: %w", digest, err)
	}
	raw, err := io.ReadAll(compressed)
	if err := errors.Join(err, compressed.Close()); err != nil {
		return fmt.Errorf("layer %s: %w", digest, err)
	}
	b[digest] = raw
	return nil
}

func (b blobs) add(raw []byte) error {
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("a digest: %w", err)
	}
	b[digest] = raw
	return nil
}

// write writes the archive: the marker of the format, the list that names the one index, and the blobs by digest.
func (b blobs) write(out io.Writer, name, tag string, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest of the index: %w", err)
	}
	list, err := json.Marshal(v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIImageIndex, Digest: digest, Size: int64(len(b[digest])),
			Annotations: map[string]string{AnnotationName: name, AnnotationRefName: tag},
		}},
	})
	if err != nil {
		return fmt.Errorf("listing the index: %w", err)
	}
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": list}
	paths := []string{"oci-layout", "index.json"} // first, for who reads it as a stream
	for digest, raw := range b {
		files["blobs/"+digest.Algorithm+"/"+digest.Hex] = raw
	}
	for path := range files {
		if path != "oci-layout" && path != "index.json" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths[2:])
	writer := tar.NewWriter(out)
	for _, path := range paths {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: int64(len(files[path])), ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR,
		}
		if err := writer.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if _, err := writer.Write(files[path]); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}

// replaceFile writes a file beside and then puts it in place: who reads meanwhile never sees half of it.
func replaceFile(file string, write func(io.Writer) error) error {
	beside, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the folder %s is not there: make it first: %w", filepath.Dir(file), err)
	}
	if err != nil {
		return fmt.Errorf("making a file: %w", err)
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
