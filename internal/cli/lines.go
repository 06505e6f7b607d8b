package cli

import (
	"bytes"
	"io"
	"sync"
)

// lines writes whole lines, each with a prefix, so that several may write at the
// same time.
type lines struct {
	w      io.Writer
	mu     *sync.Mutex
	prefix string
	rest   []byte // of a line that is not complete
}

// maxLine is how much of a line is held back.
const maxLine = 64 << 10

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
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

func (l *lines) line(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(append([]byte(l.prefix), text...))
	return err
}

// flush writes what is left: a last line without an end.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		_ = l.line(append(l.rest, '\n')) // whoever does not read does not miss it
		l.rest = nil
	}
}
