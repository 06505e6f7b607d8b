package crilog

import (
	"bytes"
	"time"
)

// maxHead is more than the head of any good line takes. A line without a head
// in its first maxHead bytes is garbled.
const maxHead = 128

// head is what stands before the text of a line: time, stream and tag. The
// zero head is that of a garbled line.
type head struct {
	time    time.Time
	stream  byte // 'o' or 'e', for stdout and stderr; 0 if garbled
	partial bool // the line goes on in the next one of the same stream
}

// continuedBy reports whether the line with head next is a further part of the
// line with head h. Parts of one stream with a line of the other between them
// are not joined: that would need memory for a whole line.
func (h head) continuedBy(next head) bool {
	return h.partial && h.stream == next.stream
}

// headLen finds where the head in b ends: after its third space, or at the
// newline. It returns false if b is too short to tell.
func headLen(b []byte) (int, bool) {
	spaces := 0
	for i, c := range b {
		switch c {
		case '\n':
			return i, true
		case ' ':
			if spaces++; spaces == 3 {
				return i + 1, true
			}
		}
	}
	return len(b), len(b) >= maxHead
}

// parseHead reads b, which is what headLen found. The stamp is the time as it
// is written. A head that is not one gives the zero head.
func parseHead(b []byte) (h head, stamp []byte) {
	stamp, rest, _ := bytes.Cut(b, []byte{' '})
	stream, tags, _ := bytes.Cut(rest, []byte{' '})
	tags = bytes.TrimSuffix(tags, []byte{' '})
	if err := h.time.UnmarshalText(stamp); err != nil {
		return head{}, nil
	}
	switch string(stream) {
	case "stdout":
		h.stream = 'o'
	case "stderr":
		h.stream = 'e'
	default:
		return head{}, nil
	}
	// Further tags may follow the first one, after a colon.
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	switch string(tag) {
	case "F":
	case "P":
		h.partial = true
	default:
		return head{}, nil
	}
	return h, stamp
}
