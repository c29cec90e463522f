// Package transcript reads and prints what the command line `fleet` prints.
//
//	output of `fleet token create` ─► JoinText (standard input of `fleet join`)
//	                             └──► Redact (for logs and reports)
package transcript

import (
	"errors"
	"regexp"
	"strings"
)

// secrets matches the beginning of a join text, of a bearer token, and of one in base64, and the rest of each.
var secrets = regexp.MustCompile(`(fleet-join-v1:[\w-]{10}|\beyJ[\w-]{7}|\bZXlK[\w+/]{6})[\w.+/=-]+`)

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

// Redact returns a text in which join texts and bearer tokens are cut.
func Redact(text string) string { return secrets.ReplaceAllString(text, "${1}…") }
