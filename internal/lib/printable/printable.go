// Package printable makes text of containers, registries and other untrusted writers fit to be
// shown: on one line, of a bounded length, and without anything that a terminal would
// act on. It is pure.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis marks the place of text that was left out.
const ellipsis = "..."

// OneLine joins the words of s by single spaces, and replaces each character that is not printable
// by a question mark.
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
	end := size - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// Tail returns the end of s in at most size bytes, cut between two letters.
func Tail(s string, size int) string {
	if len(s) <= size {
		return s
	}
	start := len(s) - size + len(ellipsis)
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return ellipsis + s[start:]
}
