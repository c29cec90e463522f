package source

import (
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Limits of one kustomization. Kustomize builds a directory again for each time that it is listed, so a few small files can
// require more time and memory than there is. The errors of nested components double in length with each level. mostBytes
// also limits what the overlays of plain YAML patch.
const (
	mostDirectories = 2000
	mostLevels      = 20
	mostBytes       = 32 << 20
)

// expansion measures what kustomize has to build, without building it.
type expansion struct {
	disk filesys.FileSystem
	// known holds the cost of each directory; nil while it is measured.
	known map[string]*cost
	// customSchema means that a kustomization has the field openapi.
	customSchema bool
}

// cost is that of building a directory.
type cost struct{ directories, levels, bytes int }

// checkExpansion returns an error if the kustomization of a directory exceeds the limits. It reports whether kustomizations change
// the schema of the process.
func checkExpansion(disk filesys.FileSystem, dir string) (customSchema bool, err error) {
	e := expansion{disk: disk, known: map[string]*cost{}}
	_, err = e.measure(dir)
	return e.customSchema, err
}

func (e *expansion) measure(dir string) (*cost, error) {
	if known, found := e.known[dir]; known != nil {
		return known, nil
	} else if found {
		return nil, fmt.Errorf("the kustomization of directory %q includes itself: remove it from the directories that it lists", name(dir))
	}
	e.known[dir] = nil
	sum := &cost{directories: 1}
	for _, file := range konfig.RecognizedKustomizationFileNames() {
		text, err := e.disk.ReadFile(path.Join(dir, file))
		if err != nil {
			continue
		}
		sum.bytes += len(text)
		var fields map[string]any
		if yaml.Unmarshal(text, &fields) != nil {
			continue // kustomize returns the error
		}
		for field, value := range fields {
			field = strings.ToLower(field) // kustomize ignores the case
			e.customSchema = e.customSchema || field == "openapi"
			if err := e.add(sum, dir, value, listsDirectories(field)); err != nil {
				return nil, err
			}
		}
	}
	sum.levels++
	if sum.directories > mostDirectories || sum.levels > mostLevels || sum.bytes > mostBytes {
		return nil, fmt.Errorf("the kustomization of directory %q includes more than %d directories, %d levels of directories or %d MiB, "+
			"counted as often as they are listed: list less, or split the bundle", name(dir), mostDirectories, mostLevels, mostBytes>>20)
	}
	e.known[dir] = sum
	return sum, nil
}

// add adds the files, and the directories if they count, that a value of a kustomization names. Each text may be the name of
// a file.
func (e *expansion) add(sum *cost, dir string, value any, directories bool) error {
	switch value := value.(type) {
	case map[string]any:
		for _, each := range value {
			if err := e.add(sum, dir, each, false); err != nil {
				return err
			}
		}
	case []any:
		for _, each := range value {
			if err := e.add(sum, dir, each, directories); err != nil {
				return err
			}
		}
	case string:
		return e.addNamed(sum, dir, value, directories)
	}
	return nil
}

func (e *expansion) addNamed(sum *cost, dir, text string, directories bool) error {
	listed := path.Join(dir, text)
	if directories && e.disk.IsDir(listed) {
		inner, err := e.measure(listed)
		if err != nil {
			return err
		}
		sum.directories = min(sum.directories+inner.directories, mostDirectories+1)
		sum.bytes = min(sum.bytes+inner.bytes, mostBytes+1)
		sum.levels = max(sum.levels, inner.levels)
		return nil
	}
	_, source, _ := strings.Cut(text, "=") // a generator names a file as KEY=FILE
	for _, file := range []string{listed, path.Join(dir, source)} {
		if content, err := e.disk.ReadFile(file); err == nil {
			sum.bytes = min(sum.bytes+len(content), mostBytes+1)
		}
	}
	return nil
}

// listsDirectories reports whether a field of a kustomization, in lower case, can list directories with other kustomizations.
func listsDirectories(field string) bool {
	switch field {
	case "resources", "bases", "components", "generators", "transformers", "validators":
		return true
	default:
		return false
	}
}

// name returns the name of a directory in the bundle.
func name(dir string) string { return path.Join(".", strings.TrimPrefix(dir, "/")) }
