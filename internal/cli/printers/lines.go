package printers

import (
	"bytes"
	"io"
	"sync"
)

// LineWriter writes whole lines, each with a prefix, so that several writers can share an output.
type LineWriter struct {
	W      io.Writer
	Mu     *sync.Mutex // of all writers of W
	Prefix string
	rest   []byte // a line that is not complete yet
}

// maxLine is how much of an incomplete line is buffered.
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

// Flush writes the incomplete line that is left.
func (l *LineWriter) Flush() {
	if len(l.rest) > 0 {
		_ = l.line(append(l.rest, '\n')) // the output is closed: there is nothing to be done
		l.rest = nil
	}
}
