package hook

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxOutput bounds what is shown of a command's output.
	maxOutput = 1 << 10
	// maxWhat and maxWhy bound the two halves of a failure's text.
	maxWhat = 256
	maxWhy  = 2 << 10
	// cutMark stands where text was left out.
	cutMark = "..."
)

// failure is an error with words for an event, and its cause for errors.Is.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// newFailure puts the words together. Much of them was written by the pod, so
// they are made printable here, whatever way they came.
func newFailure(what, why string, cause error) error {
	text := OneLine(what, maxWhat)
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		text += ": not done in time"
	case errors.Is(cause, context.Canceled):
		text += ": interrupted"
	}
	return &failure{text: text + ": " + OneLine(why, maxWhy), cause: cause}
}

// OneLine returns s on one line of at most size bytes, fit to be printed anywhere.
func OneLine(s string, size int) string { return head(printable(s), size) }

// printable returns s on one line, without anything that a terminal would act on.
func printable(s string) string {
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

// head returns the beginning of s in at most size bytes.
func head(s string, size int) string {
	if len(s) <= size {
		return s
	}
	end := size - len(cutMark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cutMark
}

// tail returns the end of s in at most size bytes.
func tail(s string, size int) string {
	if len(s) <= size {
		return s
	}
	start := len(s) - size + len(cutMark)
	for !utf8.RuneStart(s[start]) {
		start++
	}
	return cutMark + s[start:]
}
