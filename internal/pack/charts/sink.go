package charts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// limits bound what one download may cost.
type limits struct {
	// received and unpacked are bytes on the wire and on the disk.
	received, unpacked int64
	// memory are the bytes of what must be read as a whole: an index, the archive of a dependency.
	memory  int64
	entries int
}

// maxName and maxDepth limit the path of an entry: its bytes, and how deep its folders are nested. Each entry creates the
// folders of its path, which are not counted.
const (
	maxName  = 4096
	maxDepth = 100
)

func defaultLimits() limits {
	return limits{received: 2 << 30, unpacked: 2 << 30, memory: 256 << 20, entries: 100_000}
}

// A sink is a directory that receives files. It never writes outside the directory.
type sink struct {
	root    *os.Root
	limits  limits
	size    int64
	entries int
	links   []string
}

func newSink(dir string, limits limits) (*sink, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &sink{root: root, limits: limits}, nil
}

func (s *sink) close() { _ = s.root.Close() }

// enter counts an entry and returns its clean name. The root itself is ".".
func (s *sink) enter(name string) (string, error) {
	if s.entries++; s.entries > s.limits.entries {
		return "", fmt.Errorf("more than %d files and folders", s.limits.entries)
	}
	if len(name) > maxName {
		return "", fmt.Errorf("entry %.100q… has a path of more than %d bytes", name, maxName)
	}
	clean := path.Clean(name)
	if path.IsAbs(name) || !filepath.IsLocal(clean) {
		return "", fmt.Errorf("entry %q leads out of the folder", name)
	}
	if strings.Count(clean, "/") > maxDepth {
		return "", fmt.Errorf("entry %.100q… is nested more than %d levels deep", clean, maxDepth)
	}
	if parent := path.Dir(clean); parent != "." {
		if err := s.root.MkdirAll(parent, 0o700); err != nil {
			return "", err
		}
	}
	return clean, nil
}

// dir creates a folder.
func (s *sink) dir(name string) error {
	clean, err := s.enter(name)
	if err != nil || clean == "." {
		return err
	}
	return s.root.MkdirAll(clean, 0o700)
}

// file writes a file. An earlier entry of the same name is replaced.
func (s *sink) file(name string, content io.Reader) error {
	clean, err := s.enter(name)
	if err != nil {
		return err
	}
	if err := s.remove(clean); err != nil {
		return err
	}
	file, err := s.root.OpenFile(clean, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	written, err := io.Copy(file, io.LimitReader(content, s.limits.unpacked-s.size+1))
	if s.size += written; s.size > s.limits.unpacked {
		err = errors.Join(err, fmt.Errorf("more than %d bytes unpacked", s.limits.unpacked))
	}
	return errors.Join(err, file.Close())
}

// symlink creates a symbolic link. verify checks later where it leads.
func (s *sink) symlink(name, to string) error {
	clean, err := s.enter(name)
	if err != nil {
		return err
	}
	if path.IsAbs(to) || filepath.IsAbs(to) || len(to) > maxName {
		return fmt.Errorf("link %q leads out of the folder", name)
	}
	if err := s.remove(clean); err != nil {
		return err
	}
	s.links = append(s.links, clean)
	return s.root.Symlink(filepath.FromSlash(to), clean)
}

// hardlink gives a second name to a file that was written before.
func (s *sink) hardlink(name, to string) error {
	clean, err := s.enter(name)
	if err != nil {
		return err
	}
	target := path.Clean(to)
	if path.IsAbs(to) || !filepath.IsLocal(target) {
		return fmt.Errorf("link %q leads out of the folder", name)
	}
	if target == clean {
		return nil
	}
	if err := s.remove(clean); err != nil {
		return err
	}
	s.links = append(s.links, clean) // the file may be a symbolic link
	return s.root.Link(target, clean)
}

func (s *sink) remove(name string) error {
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// verify returns an error if a symbolic link leads out of the directory. Only the complete directory can show it: the
// links may lead through each other.
func (s *sink) verify() error {
	for _, link := range s.links {
		if _, err := s.root.Stat(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("link %q leads out of the folder", link)
		}
	}
	return nil
}
