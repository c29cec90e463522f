package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// ignoreFile is the file with patterns of what does not belong to a Bundle.
const ignoreFile = ".fleetignore"

// allOf ends a pattern that drops folders of a name.
const allOf = "/*"

// ignored are the patterns that hold for a folder: those of its parents, then its own.
type ignored []string

// and returns the patterns together with those of a folder's file.
func (i ignored) and(folder string) (ignored, error) {
	path := filepath.Join(folder, ignoreFile)
	text, err := readFile(path, maxOptions)
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err != nil {
		return nil, err
	}
	own, err := parseIgnored(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return append(slices.Clip(i), own...), nil
}

// parseIgnored reads patterns: one for each line. Errors do not contain the line, which may come from a file that is
// not meant for others.
func parseIgnored(text string) (ignored, error) {
	var patterns ignored
	number := 0
	for line := range strings.Lines(text) {
		number++
		pattern := trimBlanks(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			continue
		}
		if _, err := filepath.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		patterns = append(patterns, pattern)
	}
	return patterns, nil
}

// trimBlanks removes blanks at the end, but not one that a backslash precedes.
func trimBlanks(pattern string) string {
	for strings.HasSuffix(pattern, " ") && !strings.HasSuffix(pattern, `\ `) {
		pattern = pattern[:len(pattern)-1]
	}
	return pattern
}

// drops reports whether a file or folder of this name does not belong to the Bundle.
func (i ignored) drops(name string, isFolder bool) bool {
	return slices.ContainsFunc(i, func(pattern string) bool {
		if folder, all := strings.CutSuffix(pattern, allOf); all {
			return isFolder && folder == name
		}
		matches, _ := filepath.Match(pattern, name)
		return matches
	})
}
