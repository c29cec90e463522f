package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// blobs maps digests to the contents of an archive.
type blobs map[v1.Hash][]byte

// addIndex adds an index and everything that it references.
func (b blobs) addIndex(index v1.ImageIndex) error {
	raw, err := index.RawManifest()
	if err != nil {
		return fmt.Errorf("reading the manifest of the index: %w", err)
	}
	if err := b.add(raw); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the manifest of the index: %w", err)
	}
	for _, child := range manifest.Manifests {
		image, err := index.Image(child.Digest)
		if err == nil {
			err = b.addImage(image)
		}
		if err != nil {
			return fmt.Errorf("adding image %s: %w", child.Digest, err)
		}
	}
	return nil
}

// addImage adds the image of one platform.
func (b blobs) addImage(image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return fmt.Errorf("reading its manifest: %w", err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return fmt.Errorf("reading its configuration: %w", err)
	}
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("reading its layers: %w", err)
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
		return fmt.Errorf("reading the digest of a layer: %w", err)
	}
	if _, there := b[digest]; there {
		return nil // shared by two platforms
	}
	compressed, err := layer.Compressed()
	if err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}
	raw, err := io.ReadAll(compressed)
	if err := errors.Join(err, compressed.Close()); err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}
	b[digest] = raw
	return nil
}

func (b blobs) add(raw []byte) error {
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("parsing a digest: %w", err)
	}
	b[digest] = raw
	return nil
}

// write writes the archive: the layout file, the list with the index, and the blobs by digest.
func (b blobs) write(out io.Writer, name, tag string, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest of the index: %w", err)
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
	writer := tar.NewWriter(out)
	// These files come first, for programs that read the archive as a stream.
	err = errors.Join(
		addToArchive(writer, layoutFile, []byte(`{"imageLayoutVersion":"1.0.0"}`)),
		addToArchive(writer, indexFile, list),
	)
	digests := slices.SortedFunc(maps.Keys(b), func(a, b v1.Hash) int { return cmp.Compare(a.String(), b.String()) })
	for _, digest := range digests {
		err = errors.Join(err, addToArchive(writer, path.Join(blobsFolder, digest.Algorithm, digest.Hex), b[digest]))
	}
	if err := errors.Join(err, writer.Close()); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// Names in an OCI archive.
const (
	layoutFile  = "oci-layout"
	indexFile   = "index.json"
	blobsFolder = "blobs"
)

func addToArchive(writer *tar.Writer, name string, content []byte) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR,
	}
	if err := writer.WriteHeader(header); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	if _, err := writer.Write(content); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return nil
}
