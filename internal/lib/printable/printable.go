// Package printable makes text of containers, registries and other untrusted writers fit to be
// shown: on one line, of a bounded length, and without anything that a terminal would
// act on. It is pure.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cutMark stands where text was left out.
const cutMark = "..."

// OneLine returns s on one line that is fit to be printed anywhere.
func OneLine(s string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(s) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		for _, r := range word {
			if !unicode.IsPrint(r) {
				r = '?'
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Head returns the beginning of s in at most size bytes, cut between two letters.
func Head(s string, size int) string {
	if len(s) <= size {
		return s
	}
	end := size - len(cutMark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cutMark
}

// Tail returns the end of s in at most size bytes, cut between two letters.
func Tail(s string, size int) string {
	if len(s) <= size {
		return s
	}
	start := len(s) - size + len(cutMark)
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return cutMark + s[start:]
}
