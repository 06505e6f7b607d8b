package printers

import (
	"bytes"
	"io"
	"sync"
)

// LineWriter writes whole lines, each with a prefix, so that several may write at the
// same time.
type LineWriter struct {
	W      io.Writer
	Mu     *sync.Mutex
	Prefix string
	rest   []byte // of a line that is not complete
}

// maxLine is how much of a line is held back.
const maxLine = 64 << 10

// Write implements io.Writer.
func (l *LineWriter) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		end := bytes.IndexByte(l.rest, '\n') + 1
		if end == 0 && len(l.rest) > maxLine {
			end = len(l.rest)
		}
		if end == 0 {
			return len(b), nil
		}
		if err := l.line(l.rest[:end]); err != nil {
			return 0, err
		}
		l.rest = l.rest[end:]
	}
}

func (l *LineWriter) line(text []byte) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	_, err := l.W.Write(append([]byte(l.Prefix), text...))
	return err
}

// Flush writes what is left: a last line without an end.
func (l *LineWriter) Flush() {
	if len(l.rest) > 0 {
		_ = l.line(append(l.rest, '\n')) // whoever does not read does not miss it
		l.rest = nil
	}
}
