package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// maxNested limits how deep archives of charts are nested in each other.
const maxNested = 5

// tooLarge is the error of a chart that exceeds a limit.
type tooLarge string

// Error returns the message.
func (t tooLarge) Error() string { return string(t) }

// checkFiles returns an error if Helm cannot load a chart safely: Helm follows symbolic links, also out of the chart and
// in loops, and reads all files into memory, with what the archives in charts/ contain.
func checkFiles(dir string, limits unpack.Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	check := &checker{left: limits.Memory, limits: limits}
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := check.entry(); err != nil {
			return err
		}
		info, err := root.Stat(name)
		isLink := entry.Type()&fs.ModeSymlink != 0
		switch {
		case err != nil && isLink:
			return fmt.Errorf("symlink %q: %w", name, err)
		case err != nil:
			return err
		case isLink && info.IsDir():
			return fmt.Errorf("symlink %q: links to folders are not supported in charts", name)
		case info.Mode().IsRegular():
			return check.file(root, name, info.Size())
		}
		return nil // Helm refuses other kinds of files
	})
}

// checkArchive returns an error if Helm cannot unpack the archive of a chart into memory. Data that are not compressed are
// not an archive.
func checkArchive(data []byte, limits unpack.Limits) error {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return nil
	}
	check := &checker{left: limits.Memory, limits: limits}
	return check.archive(bytes.NewReader(data), 0)
}

// checker counts the files and bytes of a chart.
type checker struct {
	left    int64
	entries int
	limits  unpack.Limits
}

// entry counts a file or folder.
func (c *checker) entry() error {
	if c.entries++; c.entries > c.limits.Entries {
		return tooLarge(fmt.Sprintf("the chart has more than %d files and folders", c.limits.Entries))
	}
	return nil
}

// bytes counts bytes.
func (c *checker) bytes(n int64) error {
	if c.left -= n; c.left < 0 {
		return tooLarge(fmt.Sprintf("the chart has more than %d bytes unpacked", c.limits.Memory))
	}
	return nil
}

// file counts a file of the chart's folder.
func (c *checker) file(root *os.Root, name string, size int64) error {
	if err := c.bytes(size); err != nil || !isDependency(name) && !isParsed(name) {
		return err
	}
	opened, err := root.Open(name)
	if err != nil {
		return err
	}
	defer opened.Close()
	return c.content(name, opened, 0)
}

// content checks a file that Helm unpacks or parses.
func (c *checker) content(name string, from io.Reader, nested int) error {
	switch {
	case isDependency(name):
		return c.dependency(name, from, nested+1)
	case isParsed(name):
		return checkYAML(name, from)
	}
	return nil
}

// isParsed reports whether Helm parses a file of a chart as YAML.
func isParsed(name string) bool {
	return slices.Contains([]string{"Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock"}, path.Base(name))
}

// checkYAML returns an error if a file is large after its aliases are expanded. Helm refuses files above its own limit,
// and those that are not YAML.
func checkYAML(name string, from io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(from, loader.MaxDecompressedFileSize))
	if err != nil {
		return err
	}
	if err := yamlbound.Check(text); errors.Is(err, yamlbound.ErrTooLarge) {
		return tooLarge(fmt.Sprintf("%q: %v", name, err))
	}
	return nil
}

// isDependency reports whether a file is the archive of a dependency.
func isDependency(name string) bool {
	return path.Ext(name) == ".tgz" && path.Base(path.Dir(name)) == "charts"
}

// dependency counts the files in the archive of a dependency.
func (c *checker) dependency(name string, from io.Reader, nested int) error {
	if nested > maxNested {
		return tooLarge(fmt.Sprintf("%q: archives are nested more than %d levels deep", name, maxNested))
	}
	if err := c.archive(from, nested); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

// archive counts the files in an archive. Errors of an archive that is not valid are left to Helm.
func (c *checker) archive(from io.Reader, nested int) error {
	unzipped, err := gzip.NewReader(from)
	if err != nil {
		return onlyTooLarge(err)
	}
	files := tar.NewReader(&counted{unzipped, c})
	for {
		header, err := files.Next()
		if err != nil {
			return onlyTooLarge(err)
		}
		if err := c.entry(); err != nil {
			return err
		}
		if err := c.content(path.Clean(header.Name), files, nested); err != nil {
			return onlyTooLarge(err)
		}
	}
}

// onlyTooLarge returns the error if a limit was exceeded.
func onlyTooLarge(err error) error {
	if bound := tooLarge(""); errors.As(err, &bound) {
		return err
	}
	return nil
}

// counted is a reader whose bytes are counted.
type counted struct {
	from io.Reader
	*checker
}

// Read reads.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if bound := c.bytes(int64(n)); bound != nil {
		return n, bound
	}
	return n, err
}
