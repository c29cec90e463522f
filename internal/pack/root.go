package pack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

// rootOf returns the folder that a fleet.yaml may name local files in: the git work tree that contains the folder of the
// Bundle, or else the argument that the folder was found below. A fleet.yaml may come from a repository whose authors must
// not read other files of this machine.
func rootOf(folder Folder) (string, error) {
	given := folder.Given
	if given == "" {
		given = folder.Path
	}
	given, err := filepath.Abs(given)
	if err != nil {
		return "", err
	}
	start, err := filepath.Abs(folder.Path)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(start); err == nil { // reading a folder that does not exist fails later
		start = resolved
	}
	for tree := start; ; tree = filepath.Dir(tree) {
		if _, err := os.Lstat(filepath.Join(tree, ".git")); err == nil {
			return tree, nil
		}
		if tree == filepath.Dir(tree) {
			return given, nil
		}
	}
}

// checkOptions returns an error if the fleet.yaml of a folder is a link to a file that it may not name.
func checkOptions(folder Folder, name, file string) error {
	root, err := rootOf(folder)
	if err == nil {
		err = charts.Within(root, "the link "+name, file)
	}
	return explainOutside(err, folder.Path)
}

// explainOutside explains the error of a fleet.yaml that names a file outside of the folder that it may.
func explainOutside(err error, file string) error {
	var outside *charts.OutsideError
	if !errors.As(err, &outside) {
		return err
	}
	return &explained{err, fmt.Sprintf("%s of %s may only name files in %s, the git work tree or PATH of its folder; copy %s there, "+
		"or use the URL of a chart repository", outside.Field, file, outside.Root, outside.Path)}
}
