// Package transcript reads and prints what the command line `fleet` prints.
//
//	output of `fleet token create` ─► JoinText (standard input of `fleet join`)
//	                             └──► Redact (for logs and reports)
package transcript

import (
	"errors"
	"strings"
)

// prefix is the beginning of a join text. shown is how much of its line Redact keeps.
const (
	prefix = "fleet-join-v1:"
	shown  = len(prefix) + 10
)

// ErrNoText means that an output contains no join text.
var ErrNoText = errors.New("the output contains no join text")

// JoinText returns the lines that the command in the output of `fleet token create` has as its standard input.
func JoinText(output string) (string, error) {
	_, rest, found := strings.Cut(output, "<<'JOIN'\n")
	text, _, closed := strings.Cut(rest, "\nJOIN\n")
	if !found || !closed {
		return "", ErrNoText
	}
	return text, nil
}

// Redact returns a text in which join texts are cut.
func Redact(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, prefix) && len(line) > shown {
			lines[i] = line[:shown] + "…"
		}
	}
	return strings.Join(lines, "\n")
}
