package unpack

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

// Limits bound what one download may cost.
type Limits struct {
	// Received and Unpacked are bytes on the wire and on the disk.
	Received, Unpacked int64
	// Memory are the bytes of what must be read as a whole: an index, the archive of a dependency.
	Memory  int64
	Entries int
}

// MaxName and maxDepth limit the path of an entry: its bytes, and how deep its folders are nested. Each entry creates the
// folders of its path, which are not counted.
const (
	MaxName  = 4096
	maxDepth = 100
)

// DefaultLimits returns the limits of a chart.
func DefaultLimits() Limits {
	return Limits{Received: 2 << 30, Unpacked: 2 << 30, Memory: 256 << 20, Entries: 100_000}
}

// A Sink is a directory that receives files. It never writes outside the directory.
type Sink struct {
	Limits Limits

	root    *os.Root
	size    int64
	entries int
	links   []string
}

// NewSink returns a sink for a directory. The caller closes it.
func NewSink(dir string, limits Limits) (*Sink, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Sink{Limits: limits, root: root}, nil
}

// Close closes the directory. Its files stay.
func (s *Sink) Close() { _ = s.root.Close() }

// enter counts an entry and returns its clean name. The root itself is ".".
func (s *Sink) enter(name string) (string, error) {
	if s.entries++; s.entries > s.Limits.Entries {
		return "", fmt.Errorf("more than %d files and folders", s.Limits.Entries)
	}
	if len(name) > MaxName {
		return "", fmt.Errorf("entry %.100q… has a path of more than %d bytes", name, MaxName)
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

// Dir creates a folder.
func (s *Sink) Dir(name string) error {
	clean, err := s.enter(name)
	if err != nil || clean == "." {
		return err
	}
	return s.root.MkdirAll(clean, 0o700)
}

// File writes a file. An earlier entry of the same name is replaced.
func (s *Sink) File(name string, content io.Reader) error {
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
	written, err := io.Copy(file, io.LimitReader(content, s.Limits.Unpacked-s.size+1))
	if s.size += written; s.size > s.Limits.Unpacked {
		err = errors.Join(err, fmt.Errorf("more than %d bytes unpacked", s.Limits.Unpacked))
	}
	return errors.Join(err, file.Close())
}

// Symlink creates a symbolic link. Verify checks later where it leads.
func (s *Sink) Symlink(name, to string) error {
	clean, err := s.enter(name)
	if err != nil {
		return err
	}
	if path.IsAbs(to) || filepath.IsAbs(to) || len(to) > MaxName {
		return fmt.Errorf("link %q leads out of the folder", name)
	}
	if err := s.remove(clean); err != nil {
		return err
	}
	s.links = append(s.links, clean)
	return s.root.Symlink(filepath.FromSlash(to), clean)
}

// hardlink gives a second name to a file that was written before.
func (s *Sink) hardlink(name, to string) error {
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

func (s *Sink) remove(name string) error {
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Verify returns an error if a symbolic link leads out of the directory. Only the complete directory can show it: the
// links may lead through each other.
func (s *Sink) Verify() error {
	for _, link := range s.links {
		if _, err := s.root.Stat(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("link %q leads out of the folder", link)
		}
	}
	return nil
}
