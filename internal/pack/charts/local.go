package charts

import (
	"os"
	"path/filepath"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// copyLocal copies a local folder, or unpacks a local archive.
func copyLocal(address *address, folder string, into *unpack.Sink) error {
	from, err := absolute(folder, filepath.FromSlash(address.path))
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unpackLocal(from, address, into)
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	return unpack.CopyFolder(root, address.sub, into, !address.hasSub)
}

// unpackLocal unpacks a local archive, or copies a local file.
func unpackLocal(from string, address *address, into *unpack.Sink) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	return unpack.Write(unpack.Download{File: file, Path: filepath.ToSlash(from), Suffix: unpack.Suffix(from, ""), Folder: address.sub}, into)
}
