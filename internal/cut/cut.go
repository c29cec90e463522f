// Package cut shortens texts from other sources before they are stored in our objects. It is pure.
package cut

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ellipsis ends a shortened text.
const ellipsis = "…"

// Text returns text as valid UTF-8 without control characters (except line breaks and tabs), shortened so that
// it takes at most limit bytes as JSON without quotes. It returns valid, short text unchanged. Shortening a
// result again does not change it. limit must be at least the length of the ellipsis.
func Text(text string, limit int) string {
	length, clean := measure(text)
	if clean && length <= limit {
		return text
	}
	var out strings.Builder
	fits, used := 0, 0 // the length that leaves room for an ellipsis; the length as JSON
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

// Length returns the number of bytes that a valid text takes as JSON, without quotes.
func Length(text string) int {
	length, _ := measure(text)
	return length
}

// measure returns the number of bytes that a text takes as JSON, and whether the text can stay unchanged.
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

// lengthOf returns the number of bytes that a character takes as JSON, as API servers encode it.
func lengthOf(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	case r == '<', r == '>', r == '&', r < ' ', r == '\u2028', r == '\u2029':
		return 6
	case r < utf8.RuneSelf:
		return 1
	default:
		return utf8.RuneLen(r) // an invalid byte becomes a character of three bytes
	}
}

// Names joins the first names of a list, and counts the others.
func Names(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
