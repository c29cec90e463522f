package charts

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
)

// copyLocal copies a local folder, or unpacks a local archive.
func copyLocal(address *address, folder string, into *sink) error {
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
	return copyFolder(root, address.sub, into, !address.hasSub)
}

// unpackLocal unpacks a local archive, or copies a local file.
func unpackLocal(from string, address *address, into *sink) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	address.archive, address.url = suffix(from, ""), &url.URL{Path: filepath.ToSlash(from)}
	return unpack(file, address, into)
}

// copyFolder copies a folder below a root. It refuses symbolic links unless links is set.
func copyFolder(root *os.Root, sub string, into *sink, links bool) error {
	if sub == "" {
		sub = "."
	}
	info, err := root.Stat(sub)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fmt.Errorf("folder %q does not exist in the download", sub)
	}
	if err != nil {
		return err
	}
	folder, err := root.OpenRoot(sub)
	if err != nil {
		return err
	}
	defer folder.Close()
	return fs.WalkDir(folder.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.Type()&fs.ModeSymlink != 0 && !links:
			return fmt.Errorf("%q is a symbolic link, which is not allowed after //", path.Join(sub, name))
		}
		return copyEntry(folder, name, entry, into)
	})
}

func copyEntry(folder *os.Root, name string, entry fs.DirEntry, into *sink) error {
	switch {
	case entry.IsDir():
		return into.dir(name)
	case entry.Type()&fs.ModeSymlink != 0:
		return copyLink(folder, name, into)
	case !entry.Type().IsRegular():
		return fmt.Errorf("%q is neither a file nor a folder", name)
	}
	file, err := folder.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return into.file(name, file)
}

func copyLink(folder *os.Root, name string, into *sink) error {
	to, err := folder.Readlink(name)
	if err != nil {
		return err
	}
	return into.symlink(name, filepath.ToSlash(to))
}
