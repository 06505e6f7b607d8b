// Package table writes aligned columns. Unlike text/tabwriter it remembers how
// wide its columns are, so that rows which are added later are aligned with rows that
// were written before.
//
// Control characters in cells are replaced, so that no cell can send commands to a terminal. Colour is
// added by the Painter of a table alone, after widths were computed.
package table

import (
	"io"
	"strings"
	"unicode/utf8"
)

// gap is the least space between two columns.
const gap = 3

// Painter returns a cell with escape sequences for its colour. It must not change the width of the cell. head is the
// cell of the first row in the same column.
type Painter func(head, cell string) string

// Writer aligns rows. The zero value is not usable: see New.
type Writer struct {
	w      io.Writer
	paint  Painter
	heads  []string // the first row
	widths []int
	rows   [][]string
}

// New returns a table without colours.
func New(w io.Writer) *Writer { return Painted(w, nil) }

// Painted returns a table whose cells are coloured by paint, unless it is nil.
func Painted(w io.Writer, paint Painter) *Writer {
	if paint == nil {
		paint = func(_, cell string) string { return cell }
	}
	return &Writer{w: w, paint: paint}
}

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
	if t.heads == nil {
		t.heads = row
	}
	t.rows = append(t.rows, row)
}

// Flush writes the rows that were added since the last Flush. Columns never get
// narrower.
func (t *Writer) Flush() error {
	var b strings.Builder
	for _, row := range t.rows {
		for i, c := range row {
			b.WriteString(t.paint(t.head(i), c))
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

func (t *Writer) head(column int) string {
	if column < len(t.heads) {
		return t.heads[column]
	}
	return ""
}

// oneLine replaces control characters by spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
