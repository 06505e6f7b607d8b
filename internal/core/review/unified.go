package review

import (
	"bytes"

	"github.com/rogpeppe/go-internal/diff"
)

// unified returns the difference of two texts as 'diff -u' writes it, or nothing.
func unified(nameBefore, nameAfter, before, after string) string {
	text := diff.Diff(nameBefore, []byte(before), nameAfter, []byte(after))
	_, text, _ = bytes.Cut(text, []byte("\n")) // the first line is the command that it stands for
	return string(text)
}
