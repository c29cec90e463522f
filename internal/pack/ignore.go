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

// patterns returns the patterns of the parents together with those of a folder's file.
func (r *reader) patterns(at place, parents ignored) (ignored, error) {
	path := filepath.Join(at.path, ignoreFile)
	text, err := readFile(path, maxOptions)
	if errors.Is(err, fs.ErrNotExist) {
		return parents, nil
	}
	if err != nil {
		return nil, err
	}
	own, found, err := parseIgnored(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.warnings) < maxWarnings {
		r.warnings = append(r.warnings, found.in(filepath.Join(r.shown, at.name, ignoreFile))...)
	}
	return append(slices.Clip(parents), own...), nil
}

// parseIgnored reads patterns: one for each line. Errors do not contain the line, which may come from a file that is
// not meant for others. Editors may put a byte order mark at the start.
func parseIgnored(text string) (ignored, warnings, error) {
	var patterns ignored
	var found warnings
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		pattern := trimBlanks(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			continue
		}
		if _, err := filepath.Match(pattern, ""); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
		patterns = append(patterns, pattern)
		if problem := neverMatches(pattern); problem != "" {
			found.add(number, "the pattern probably has no effect: %s", problem)
		}
	}
	return patterns, found, nil
}

// neverMatches returns why a pattern matches no usual name of a file or folder, or empty. Patterns are those of Rancher Fleet, which
// are simpler than those of git.
func neverMatches(pattern string) string {
	folder, all := strings.CutSuffix(pattern, allOf)
	switch {
	case strings.HasPrefix(pattern, "!"):
		return "patterns cannot be negated with !"
	case all && (folder == "" || !strings.Contains(folder, "/") && strings.ContainsAny(folder, "*?[")):
		return "before /* there must be the name of a folder, not a pattern"
	case !all && strings.Count(pattern, "/") == 1 && strings.HasSuffix(pattern, "/"):
		return "to exclude the folder, write its name with /* at the end"
	case strings.Contains(folder, "/"):
		return "patterns are compared with names, not with paths; put the pattern into a " + ignoreFile + " in that folder"
	}
	return ""
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
