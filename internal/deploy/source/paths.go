package source

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// ErrPathEscapes means that a resource's name leads out of the bundle.
var ErrPathEscapes = outcome.Because(conditions.ReasonManifestInvalid, errors.New("resource name leads out of the bundle"))

// cleanPath makes a resource's name a relative, slash-separated path without "." and "..". It refuses names that
// lead out of the bundle, or that other systems would read as a drive or as an absolute path.
func cleanPath(name string) (string, error) {
	if strings.ContainsAny(name, "\\\x00") || strings.ContainsFunc(name, isControl) {
		return "", fmt.Errorf("%w: %q", ErrPathEscapes, name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: %q", ErrPathEscapes, name)
		}
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if clean == "" || hasDrive(clean) {
		return "", fmt.Errorf("%w: %q", ErrPathEscapes, name)
	}
	return clean, nil
}

// cleanDir is cleanPath for a folder named in options; "" is the root.
func cleanDir(name string) (string, error) {
	if strings.Trim(name, "/.") == "" && !strings.Contains(name, "..") {
		return "", nil
	}
	return cleanPath(name)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func hasDrive(name string) bool {
	return len(name) >= 2 && name[1] == ':' && (name[0]|0x20) >= 'a' && (name[0]|0x20) <= 'z'
}

// within returns the part of name below dir, and whether name is below it. The root is "".
func within(name, dir string) (string, bool) {
	if dir == "" {
		return name, true
	}
	return strings.CutPrefix(name, dir+"/")
}

// dirOf returns the folder of a clean path, "" for the root.
func dirOf(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}
