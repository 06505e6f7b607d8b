package printers

import (
	"io"
	"strings"
	"sync"
	"testing"
)

func TestLinesAreWrittenWhole(t *testing.T) {
	var out strings.Builder
	l := &LineWriter{W: &out, Mu: &sync.Mutex{}, Prefix: "[app] "}
	for _, part := range []string{"one\ntw", "o\n", "\nthree"} {
		if _, err := io.WriteString(l, part); err != nil {
			t.Fatal(err)
		}
	}
	l.Flush()
	l.Flush()
	if want := "[app] one\n[app] two\n[app] \n[app] three\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
	out.Reset()
	if _, err := l.Write(make([]byte, maxLine+1)); err != nil || out.Len() != maxLine+1+len("[app] ") {
		t.Errorf("a line without an end is held back: %d bytes, %v", out.Len(), err)
	}
}
