package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layerOf packs files into a layer.
func layerOf(files []File, form Form) (v1.Layer, error) {
	packed, err := pack(files)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
	layer, err := tarball.LayerFromOpener(opener,
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(form.level()), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("packing a layer: %w", err)
	}
	return layer, nil
}

// pack writes files and their parent directories as a tar, sorted by path, so that a directory precedes its
// content.
func pack(files []File) ([]byte, error) {
	entries, err := withFolders(files)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range entries {
		if err := add(writer, file); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("packing files: %w", err)
	}
	return buffer.Bytes(), nil
}

// withFolders adds the missing parent directories.
func withFolders(files []File) ([]File, error) {
	all := map[string]File{}
	for _, file := range files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path || file.Path == "/" {
			return nil, fmt.Errorf("%q is not a valid path: use an absolute path such as /usr/bin/program", file.Path)
		}
		if _, twice := all[file.Path]; twice {
			return nil, fmt.Errorf("%s is listed twice: remove one", file.Path)
		}
		all[file.Path] = file
	}
	for _, file := range files {
		for dir := path.Dir(file.Path); dir != "/"; dir = path.Dir(dir) {
			above, there := all[dir]
			if there && !above.Mode.IsDir() {
				return nil, fmt.Errorf("%s is in %s, which is not a directory", file.Path, dir)
			}
			if !there {
				all[dir] = File{Path: dir, Mode: fs.ModeDir | 0o755}
			}
		}
	}
	entries := make([]File, 0, len(all))
	for _, file := range all {
		entries = append(entries, file)
	}
	slices.SortFunc(entries, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return entries, nil
}

// add writes one entry.
func add(writer *tar.Writer, file File) error {
	content := file.Content
	if file.From != "" {
		read, err := os.ReadFile(file.From)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("source file %s of %s does not exist: build it first: %w", file.From, file.Path, err)
		}
		if err != nil {
			return fmt.Errorf("reading the source file of %s: %w", file.Path, err)
		}
		content = read
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     strings.TrimPrefix(file.Path, "/"),
		Mode:     int64(file.Mode.Perm()),
		Uid:      file.Owner,
		Gid:      file.Owner,
		Size:     int64(len(content)),
		ModTime:  time.Unix(0, 0).UTC(),
		Format:   tar.FormatUSTAR,
	}
	if file.Mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	if file.Mode.IsDir() {
		header.Typeflag, header.Name, header.Size, content = tar.TypeDir, header.Name+"/", 0, nil
	}
	if err := writer.WriteHeader(header); err != nil {
		return fmt.Errorf("packing %s: %w", file.Path, err)
	}
	if _, err := writer.Write(content); err != nil {
		return fmt.Errorf("packing %s: %w", file.Path, err)
	}
	return nil
}
