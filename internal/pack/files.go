package pack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/fleet-hub/fleet/internal/rules/content"
)

// Limits of what is read. Much less fits into a Bundle.
const (
	// maxBytes and maxFiles limit the files of one folder.
	maxBytes = content.MaxSize
	maxFiles = 100_000
	// maxDepth limits how deep folders are nested.
	maxDepth = 100
	// maxTotal limits the files of all folders together, because they are in memory at the same time.
	maxTotal = 1 << 30
	// maxOptions limits a fleet.yaml, a file with patterns, and a file with values.
	maxOptions = 4 << 20
)

// file is a file of a Bundle, named by its path in the Bundle.
type file struct {
	name string
	data []byte
}

// reader reads the files of one folder.
type reader struct {
	// shown is the folder's name in messages.
	shown string
	// excluded are the files, relative to root, that do not become resources.
	excluded map[string]bool
	// complete returns the folder of a chart with all dependencies: the same one, or a copy to remove.
	complete func(folder string) (complete string, remove func(), err error)
	// left is the number of bytes that all folders may have.
	left *atomic.Int64

	contents
	bytes int
}

// chartValues is the file with the defaults of a chart.
const chartValues = "values.yaml"

// place is a folder below the root of a Bundle, or its copy.
type place struct {
	// name is its path in the Bundle.
	name string
	// path is where it is. root is a folder above, which links may not leave. Both are absolute and without links.
	path, root string
	depth      int
}

// read reads the files below a folder that become resources.
func (r *reader) read(folder string) error {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	return r.folder(place{path: root, root: root}, nil)
}

// folder reads a folder.
func (r *reader) folder(at place, patterns ignored) error {
	if at.depth > maxDepth {
		return fmt.Errorf("folders are nested more than %d levels deep: exclude what is not deployed in %s", maxDepth, ignoreFile)
	}
	if _, err := os.Stat(filepath.Join(at.path, "Chart.yaml")); err == nil {
		complete, remove, err := r.complete(at.path)
		if err != nil {
			return err
		}
		defer remove()
		if complete != at.path {
			at.path, at.root = complete, complete
		}
	}
	patterns, err := r.patterns(at, patterns)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(at.path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		inner := place{path.Join(at.name, entry.Name()), filepath.Join(at.path, entry.Name()), at.root, at.depth + 1}
		r.noteValues(at, inner.name)
		switch {
		case strings.HasPrefix(entry.Name(), "."), r.excluded[inner.name], patterns.drops(entry.Name(), entry.IsDir()):
		case entry.IsDir():
			if err := r.folder(inner, patterns); err != nil {
				return err
			}
		default:
			if err := r.file(inner, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteValues records that the values of a chart do not become a resource.
func (r *reader) noteValues(at place, name string) {
	if name == chartValues && r.excluded[chartValues] {
		_, err := os.Stat(filepath.Join(at.path, "Chart.yaml"))
		r.lostValues = err == nil
	}
}

// file reads a file.
func (r *reader) file(at place, entry os.DirEntry) error {
	if entry.Type()&os.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(at.path)
		if err != nil {
			return err
		}
		if !isBelow(at.root, target) {
			err := fmt.Errorf("GetContent: symlink %q: target escapes bundle directory", at.name)
			return r.explainLink(err, at.name, "leads out of the folder of its Bundle")
		}
	}
	data, err := readFile(at.path, maxBytes)
	if errors.Is(err, syscall.EISDIR) {
		return r.explainLink(err, at.name, "leads to a folder, which is not followed")
	}
	if err != nil {
		return err
	}
	r.bytes += len(data)
	r.files = append(r.files, file{at.name, data})
	switch {
	case r.bytes > maxBytes, len(r.files) > maxFiles:
		return fmt.Errorf("the files have more than %d MiB, or are more than %d: exclude what is not deployed in %s",
			maxBytes>>20, maxFiles, ignoreFile)
	case r.left.Add(-int64(len(data))) < 0:
		return fmt.Errorf("the files of all folders together have more than %d MiB: apply the folders with several calls", maxTotal>>20)
	}
	return nil
}

// explainLink explains the error of a link that cannot be a file of the Bundle.
func (r *reader) explainLink(err error, name, problem string) error {
	return &explained{err, fmt.Sprintf("the link %s %s; replace it by a copy, or exclude it in %s",
		filepath.Join(r.shown, name), problem, filepath.Join(r.shown, ignoreFile))}
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
