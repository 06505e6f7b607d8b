package crilog

import (
	"bufio"
	"bytes"
	"context"
)

// LastLines returns the last lines of a log, or what fits into so many bytes of
// them. A log that can't be read has none. It reads the end of a log, which is enough
// for that many bytes even if each of them has a line of its own.
func LastLines(path string, lines int64, limit int) string {
	file, err := open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	size := min(info.Size(), int64(limit)*2*maxHead+tailBlock)
	text := make([]byte, size)
	n, err := file.ReadAt(text, info.Size()-size)
	if err != nil && n == 0 {
		return ""
	}
	text = text[:n]
	if size < info.Size() { // it begins within a line, unless that has no end
		if _, rest, found := bytes.Cut(text, []byte{'\n'}); found {
			text = rest
		}
	}
	return lastLines(text, lines, limit)
}

// lastLines decodes the last lines of the end of a log.
func lastLines(text []byte, lines int64, limit int) string {
	at, err := tailOffset(context.Background(), bytes.NewReader(text), int64(len(text)), lines)
	if err != nil {
		return ""
	}
	var decoded bytes.Buffer
	out := bufio.NewWriter(&decoded)
	d := newDecoder(out, Options{})
	d.decode(text[at:])
	d.endFile()
	if err := out.Flush(); err != nil {
		return ""
	}
	end := decoded.Bytes()
	return string(end[max(0, len(end)-limit):])
}
