// Package table writes aligned columns. Unlike text/tabwriter it remembers how
// wide its columns are, so that rows which come later line up with those that
// were printed before.
package table

import (
	"io"
	"strings"
	"unicode/utf8"
)

// gap is the least space between two columns.
const gap = 3

// Writer aligns rows. The zero value is not usable: see New.
type Writer struct {
	w      io.Writer
	widths []int
	rows   [][]string
}

// New returns a table that is written to w.
func New(w io.Writer) *Writer { return &Writer{w: w} }

// Row adds a row. It is written with the next Flush.
func (t *Writer) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = oneLine(c)
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(row[i]))
	}
	t.rows = append(t.rows, row)
}

// Flush writes the rows that were added since the last one. Columns never get
// narrower.
func (t *Writer) Flush() error {
	var b strings.Builder
	for _, row := range t.rows {
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c)+gap))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(t.w, b.String())
	return err
}

// oneLine keeps a cell from breaking its row.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}
