package pack

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folder is a folder that becomes a Bundle.
type Folder struct {
	// Path is the folder, spelled like the argument that it comes from.
	Path string
	// Options is the file with the options, relative to Path. If it is empty, they are in fleet.yaml or fleet.yml.
	Options string
	// Given is the argument that Path was found below, without its wildcards. If it is empty, it is Path.
	Given string
}

// Names of the file with the options of a folder.
const (
	optionsFile    = "fleet.yaml"
	optionsFileYML = "fleet.yml"
)

// Find returns the folders below the paths that become Bundles. A path may be a glob. options is the file with the
// options of every folder, or empty.
func Find(paths []string, options string) ([]Folder, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var found []Folder
	for _, path := range paths {
		matches, err := filepath.Glob(strings.TrimLeft(path, "/"))
		if err != nil {
			return nil, fmt.Errorf("invalid path %q: %w", path, err)
		}
		for _, match := range matches {
			below, err := folders(match)
			if err != nil {
				return nil, err
			}
			for _, folder := range below {
				found = append(found, Folder{Path: folder, Options: options, Given: withoutWildcards(path)})
			}
		}
	}
	return found, nil
}

// withoutWildcards returns the folder that all matches of a pattern are in, or the path if it has no wildcards.
func withoutWildcards(pattern string) string {
	for pattern = strings.TrimLeft(pattern, "/"); strings.ContainsAny(pattern, `*?[\`); {
		pattern = filepath.Dir(pattern)
	}
	return pattern
}

// Split returns the folders of a driven scan: each path is one folder, or a folder and the file with its options.
func Split(paths []string, separator string) ([]Folder, error) {
	found := make([]Folder, 0, len(paths))
	for _, path := range paths {
		parts := strings.Split(path, separator)
		switch len(parts) {
		case 1:
			found = append(found, Folder{Path: parts[0]})
		case 2:
			found = append(found, Folder{Path: parts[0], Options: parts[1]})
		default:
			return nil, fmt.Errorf("invalid bundle path: %q", path)
		}
	}
	return found, nil
}

// folders returns root, if it becomes a Bundle, and the folders below it with options of their own.
func folders(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case entry.Name() == ".git" && path != root:
			return fs.SkipDir
		case hasOptions(path):
			found = append(found, path)
			return nil
		case path != root:
			return nil
		}
		if holds, err := holdsYAML(path); err != nil || !holds {
			return err
		}
		found = append(found, path)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("searching %s: %w", root, err)
	}
	return found, nil
}

// hasOptions reports whether a folder has a file with options.
func hasOptions(folder string) bool { return optionsOf(folder) != "" }

// optionsOf returns the name of the file with a folder's options, or empty.
func optionsOf(folder string) string {
	for _, name := range []string{optionsFile, optionsFileYML} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return name
		}
	}
	return ""
}

// holdsYAML reports whether a folder, or a folder below that has no options, holds a YAML file.
func holdsYAML(root string) (bool, error) {
	found := false
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && hasOptions(path):
			return fs.SkipDir
		case !entry.IsDir() && (filepath.Ext(path) == ".yaml" || filepath.Ext(path) == ".yml"):
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}
