package crilog

import (
	"context"
	"log/slog"
)

// LastLines returns the last lines of a log, or what fits into so many bytes of
// them. A log that can't be read has none.
func LastLines(path string, lines int64, limit int) string {
	reader := NewReader(slog.New(slog.DiscardHandler))
	defer func() { _ = reader.Close() }()
	out := lastBytes{limit: limit}
	if err := reader.Copy(context.Background(), &out, path, Options{Tail: lines}); err != nil {
		return ""
	}
	return string(out.text)
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	limit int
	text  []byte
}

func (l *lastBytes) Write(b []byte) (int, error) {
	l.text = append(l.text, b...)
	if extra := len(l.text) - l.limit; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(b), nil
}
