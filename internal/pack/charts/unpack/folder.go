package unpack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// CopyFolder copies a folder below a root, without its folder .git. It refuses symbolic links unless links is set.
func CopyFolder(root *os.Root, sub string, into *Sink, links bool) error {
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

func copyEntry(folder *os.Root, name string, entry fs.DirEntry, into *Sink) error {
	switch {
	case name == ".git" && entry.IsDir():
		return fs.SkipDir
	case entry.IsDir():
		return into.Dir(name)
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
	return into.File(name, file)
}

func copyLink(folder *os.Root, name string, into *Sink) error {
	to, err := folder.Readlink(name)
	if err != nil {
		return err
	}
	return into.Symlink(name, filepath.ToSlash(to))
}
