package charts

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// fieldChart is the field of fleet.yaml with an address.
const fieldChart = "helm.chart"

// OutsideError means that an address names a file outside of the folder that it may name files in.
type OutsideError struct{ Field, Path, Root string }

// Error returns the message.
func (o *OutsideError) Error() string {
	return fmt.Sprintf("%s names %s, which is not in %s", o.Field, o.Path, o.Root)
}

// Within returns an OutsideError with the field that names a path if it is not in the folder root, also if it is a symbolic
// link. With an empty root, every path is.
func Within(root, field, path string) error {
	if root == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	outer, err := resolved(root)
	if err != nil {
		return err
	}
	inner, err := resolved(path)
	if err != nil {
		return err
	}
	if relative, err := filepath.Rel(outer, inner); err != nil || !filepath.IsLocal(relative) {
		return &OutsideError{field, path, root}
	}
	return nil
}

// resolved returns an absolute path without symbolic links.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// confineRepository returns an error if a git repository of this machine is not in the folder root, or can refer to files
// outside of it. The repository of the folder root itself is that of the user.
func confineRepository(address *address, root string) error {
	if root == "" || address.url.Scheme != "file" && address.url.Scheme != "" {
		return nil
	}
	if err := Within(root, fieldChart, address.url.Path); err != nil {
		return err
	}
	outer, err := resolved(root)
	if err != nil {
		return err
	}
	inner, err := resolved(address.url.Path)
	if err != nil || inner == outer {
		return err
	}
	return filepath.WalkDir(inner, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Type()&fs.ModeSymlink != 0, entry.Name() == ".git" && !entry.IsDir(), entry.Name() == "alternates":
			return fmt.Errorf("%s can refer to files outside of %s, which is not allowed in a git repository in that folder", name, root)
		}
		return nil
	})
}

// copyLocal copies a local folder, or unpacks a local archive. It must be in the folder root, unless that is empty.
func copyLocal(address *address, folder, root string, into *unpack.Sink) error {
	from, err := absolute(folder, filepath.FromSlash(address.path))
	if err != nil {
		return err
	}
	if err := Within(root, fieldChart, from); err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unpackLocal(from, address, into)
	}
	opened, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer opened.Close()
	return unpack.CopyFolder(opened, address.sub, into, !address.hasSub)
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
