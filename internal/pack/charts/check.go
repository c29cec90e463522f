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
	"helm.sh/helm/v3/pkg/ignore"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// maxRules limits the bytes of a file with rules of what to ignore.
const maxRules = 1 << 20

// maxNested limits how deep archives of charts are nested in each other.
const maxNested = 5

// tooLarge is the error of a chart that exceeds a limit.
type tooLarge string

// Error returns the message.
func (t tooLarge) Error() string { return string(t) }

// gitFolder is a rule that ignores the files of git, which are not part of a chart.
const gitFolder = "/.git/"

// checkFiles returns an error if Helm cannot load a chart safely: Helm follows symbolic links, also out of the chart and
// in loops, and reads all files into memory, with what the archives in charts/ contain.
func checkFiles(dir string, limits unpack.Limits) error {
	_, err := readFiles(dir, "", limits)
	return err
}

// readFiles returns the files of a chart that Helm would load, without those that another rule ignores. It fails like checkFiles.
func readFiles(dir, rule string, limits unpack.Limits) ([]*loader.BufferedFile, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	rules, err := ignoreRules(root, rule)
	if err != nil {
		return nil, err
	}
	var files []*loader.BufferedFile
	check := &checker{left: limits.Memory, limits: limits}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := infoOf(root, name, entry)
		if err != nil {
			return err
		}
		isLink := entry.Type()&fs.ModeSymlink != 0 // Helm follows links before it ignores them
		switch ignored := !isLink && rules.Ignore(name, info); {
		case ignored && info.IsDir():
			return fs.SkipDir
		case ignored:
			return nil
		case info.IsDir():
			return check.entry()
		}
		data, err := check.file(root, name, info)
		files = append(files, &loader.BufferedFile{Name: name, Data: data})
		return err
	})
	return files, check.explain(err)
}

// readDefinition returns the files of a chart that can list its dependencies. Links in other files do not matter for them.
func readDefinition(dir string, limits unpack.Limits) ([]*loader.BufferedFile, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var files []*loader.BufferedFile
	check := &checker{left: limits.Memory, limits: limits}
	for _, name := range []string{"Chart.yaml", "requirements.yaml"} {
		info, err := root.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%q of the chart: %w", name, err)
		}
		data, err := check.file(root, name, info)
		if err != nil {
			return nil, err
		}
		files = append(files, &loader.BufferedFile{Name: name, Data: data})
	}
	return files, nil
}

// infoOf describes a file or folder, or the file that a link leads to.
func infoOf(root *os.Root, name string, entry fs.DirEntry) (fs.FileInfo, error) {
	info, err := root.Stat(name)
	if entry.Type()&fs.ModeSymlink == 0 {
		return info, err
	}
	if err != nil {
		return nil, fmt.Errorf("symlink %q: %w", name, err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("symlink %q: links to folders are not supported in charts", name)
	}
	return info, nil
}

// ignoreRules returns the rules with which Helm ignores files of a chart, and another one. Of rules that are too large, none are
// used.
func ignoreRules(root *os.Root, rule string) (*ignore.Rules, error) {
	var text []byte
	if info, err := root.Stat(ignore.HelmIgnore); err == nil && info.Mode().IsRegular() && info.Size() <= maxRules {
		if text, err = root.ReadFile(ignore.HelmIgnore); err != nil {
			return nil, err
		}
	}
	rules, err := ignore.Parse(bytes.NewReader(append(text, "\n"+rule...)))
	if err != nil {
		return nil, err
	}
	rules.AddDefaults()
	return rules, nil
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

// explain adds to an error how to keep the chart within its limits.
func (c *checker) explain(err error) error {
	if c.left < 0 || c.entries > c.limits.Entries {
		return fmt.Errorf("%w: exclude what does not belong to it in %s", err, ignore.HelmIgnore)
	}
	return err
}

// bytes counts bytes.
func (c *checker) bytes(n int64) error {
	if c.left -= n; c.left < 0 {
		return tooLarge(fmt.Sprintf("the chart has more than %d bytes unpacked", c.limits.Memory))
	}
	return nil
}

// file counts and reads a file of the chart's folder. Helm refuses the same ones.
func (c *checker) file(root *os.Root, name string, info fs.FileInfo) ([]byte, error) {
	if err := c.entry(); err != nil {
		return nil, err
	}
	if err := c.bytes(info.Size()); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", name)
	}
	if info.Size() > loader.MaxDecompressedFileSize {
		return nil, fmt.Errorf("chart file %q is larger than the maximum file size %d", name, loader.MaxDecompressedFileSize)
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), c.content(name, bytes.NewReader(data), 0)
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
