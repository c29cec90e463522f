// Package cut shortens texts that others wrote, before they get into an object of ours. It is pure.
package cut

import (
	"strings"
	"unicode/utf8"
)

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Text returns text as valid UTF-8 without control characters other than line breaks and tabs, and so much of it that it
// takes up to limit bytes as JSON, its quotes aside. It returns the text itself if nothing is wrong with it. Cutting a
// text again changes nothing. The limit is at least the length of the ellipsis.
func Text(text string, limit int) string {
	length, clean := measure(text)
	if clean && length <= limit {
		return text
	}
	var out strings.Builder
	fits, used := 0, 0 // the length of what an ellipsis fits behind, and what all takes as JSON
	for _, r := range text {
		if isControl(r) {
			r = utf8.RuneError
		}
		if used += lengthOf(r); used > limit {
			return out.String()[:fits] + ellipsis
		}
		out.WriteRune(r)
		if used+len(ellipsis) <= limit {
			fits = out.Len()
		}
	}
	return out.String()
}

// Length is how many bytes a valid text takes as JSON, its quotes aside.
func Length(text string) int {
	length, _ := measure(text)
	return length
}

// measure returns how many bytes a text takes as JSON, and whether it may stay as it is.
func measure(text string) (length int, clean bool) {
	clean = true
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < utf8.RuneSelf {
			length += lengthOf(rune(c))
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if isControl(r) || r == utf8.RuneError && size == 1 {
			clean = false
		}
		length += lengthOf(r)
		i += size
	}
	return length, clean
}

func isControl(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0
}

// lengthOf is how many bytes a character takes as JSON, as API servers write it.
func lengthOf(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	case r == '<', r == '>', r == '&', r < ' ', r == '\u2028', r == '\u2029':
		return 6
	case r < utf8.RuneSelf:
		return 1
	default:
		return utf8.RuneLen(r) // a byte that is no character becomes one of three bytes
	}
}
