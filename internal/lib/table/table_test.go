package table

import (
	"errors"
	"strings"
	"testing"
)

func TestColumnsLineUpAndStaySo(t *testing.T) {
	var out strings.Builder
	w := New(&out)
	w.Row("NAME", "STATUS", "AGE")
	w.Row("wéb", "Running", "5s")
	flush(t, w)
	// Later rows line up with the earlier ones, and may widen a column
	w.Row("x", "Ok", "1m")
	flush(t, w)
	w.Row("a-long-name", "two\nlines", "2m")
	w.Row("x", "", "3m")
	flush(t, w)
	flush(t, w)
	want := `NAME   STATUS    AGE
wéb    Running   5s
x      Ok        1m
a-long-name   two lines   2m
x                         3m
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func flush(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestColourTakesNoSpace(t *testing.T) {
	var out strings.Builder
	w := Painted(&out, func(head, cell string) string {
		if head == "STATUS" && cell == "Error" {
			return "<red>" + cell + "</red>"
		}
		return cell
	})
	w.Row("STATUS", "NAME")
	w.Row("Error", "Error")
	w.Row("Running", "\x1b[31mweb", "extra")
	flush(t, w)
	want := `STATUS    NAME
<red>Error</red>     Error
Running    [31mweb   extra
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestFlushReturnsTheErrorOfItsWriter(t *testing.T) {
	w := New(full{})
	w.Row("x")
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
