package pack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fleet-hub/fleet/internal/rules/content"
)

// Limits of what is read. Much less fits into a Bundle.
const (
	// maxBytes and maxFiles limit the files of one folder.
	maxBytes = content.MaxSize
	maxFiles = 100_000
	// maxOptions limits a fleet.yaml, a file with patterns, and a file with values.
	maxOptions = 4 << 20
)

// errEscapes means that a link leads out of the folder.
var errEscapes = errors.New("target escapes bundle directory")

// file is a file of a Bundle, named by its path in the Bundle.
type file struct {
	name string
	data []byte
}

// reader reads the files of one folder.
type reader struct {
	// root is the folder, absolute and without links.
	root string
	// excluded are the files, relative to root, that do not become resources.
	excluded map[string]bool
	// update completes the folder of a chart before it is read.
	update func(folder string) error

	files []file
	bytes int
}

// readFolder returns the files below a folder that become resources.
func readFolder(folder string, excluded map[string]bool, update func(folder string) error) ([]file, error) {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	r := &reader{root: root, excluded: excluded, update: update}
	if err := r.folder("", nil); err != nil {
		return nil, err
	}
	return r.files, nil
}

// folder reads a folder below the root.
func (r *reader) folder(relative string, patterns ignored) error {
	where := filepath.Join(r.root, relative)
	if _, err := os.Stat(filepath.Join(where, "Chart.yaml")); err == nil {
		if err := r.update(where); err != nil {
			return err
		}
	}
	patterns, err := patterns.and(where)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(where)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(relative, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."), r.excluded[name], patterns.drops(entry.Name(), entry.IsDir()):
		case entry.IsDir():
			if err := r.folder(name, patterns); err != nil {
				return err
			}
		default:
			if err := r.file(name, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// file reads a file below the root.
func (r *reader) file(name string, entry os.DirEntry) error {
	where := filepath.Join(r.root, name)
	if entry.Type()&os.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(where)
		if err != nil {
			return err
		}
		if !isBelow(r.root, target) {
			return fmt.Errorf("GetContent: symlink %q: %w", name, errEscapes)
		}
	}
	data, err := readFile(where, maxBytes)
	if err != nil {
		return err
	}
	r.bytes += len(data)
	r.files = append(r.files, file{name, data})
	if r.bytes > maxBytes || len(r.files) > maxFiles {
		return fmt.Errorf("the files have more than %d MiB, or are more than %d: exclude what is not deployed in %s",
			maxBytes>>20, maxFiles, ignoreFile)
	}
	return nil
}

// isHidden reports whether a folder's name begins with a dot. Such a folder has no resources.
func isHidden(folder string) bool {
	name := filepath.Base(folder)
	return name != "." && name != ".." && strings.HasPrefix(name, ".")
}

// isBelow reports whether a path is in a folder. Both are absolute and without links.
func isBelow(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// readFile reads a regular file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	opened, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if info, err := opened.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return readAll(opened, path, limit)
}

// readAll reads at most limit bytes.
func readAll(from io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, limit>>20)
	}
	return data, nil
}

// exclusions returns the files that do not become resources: the files with options and with values.
func exclusions(options string, valuesFiles []string) map[string]bool {
	excluded := map[string]bool{optionsFile: true}
	if options != "" {
		excluded[path.Clean(filepath.ToSlash(options))] = true
	}
	for _, name := range valuesFiles {
		clean := path.Clean(filepath.ToSlash(name))
		excluded[clean], excluded[path.Base(clean)] = true, true
	}
	return excluded
}
