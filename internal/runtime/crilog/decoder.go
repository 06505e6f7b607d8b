package crilog

import (
	"bufio"
	"bytes"
	"time"
)

// decoder is given the bytes of a log as they come, cut anywhere, and writes
// the text that is in them. It holds no more of a line than its head.
//
//	      head complete             newline
//	head ───────────────▶ text ──────────────────▶ head
//
// A bufio.Writer keeps its first error, so that only the flush looks at it.
type decoder struct {
	out        *bufio.Writer
	since      time.Time
	timestamps bool

	pending []byte // of a head that is not complete; never longer than maxHead
	inText  bool   // the head of the present line was read
	last    head   // of the present line, or of the one before while in a head
	hidden  bool   // the line is older than since
}

func newDecoder(out *bufio.Writer, o Options) *decoder {
	return &decoder{out: out, since: o.Since, timestamps: o.Timestamps, pending: make([]byte, 0, maxHead)}
}

// decode takes the next bytes of the log.
func (d *decoder) decode(b []byte) {
	for len(b) > 0 {
		if !d.inText {
			b = b[d.parseHead(b):]
			continue
		}
		text, rest, ended := bytes.Cut(b, []byte{'\n'})
		d.write(text)
		if ended {
			d.endLine()
		}
		b = rest
	}
}

// parseHead goes on reading a head, and returns how much of b was of it.
func (d *decoder) parseHead(b []byte) int {
	held := len(d.pending)
	room := min(len(b), maxHead-held)
	d.pending = append(d.pending, b[:room]...)
	n, complete := headLen(d.pending)
	if !complete {
		return room
	}
	d.startLine(d.pending[:n])
	return n - held
}

func (d *decoder) startLine(b []byte) {
	h, stamp := parseHead(b)
	joined := d.last.continuedBy(h)
	if !joined {
		if d.last.partial {
			d.writeByte('\n')
		}
		d.hidden = h.stream != 0 && !d.since.IsZero() && h.time.Before(d.since)
	}
	switch {
	case h.stream == 0:
		d.write(b)
	case d.timestamps && !joined:
		d.write(stamp)
		d.writeByte(' ')
	}
	d.last, d.inText, d.pending = h, true, d.pending[:0]
}

func (d *decoder) endLine() {
	if !d.last.partial {
		d.writeByte('\n')
	}
	d.inText = false
}

// endFile ends a line that the file left without its newline.
func (d *decoder) endFile() {
	if len(d.pending) > 0 {
		d.startLine(d.pending)
	}
	if d.inText {
		d.endLine()
	}
}

func (d *decoder) write(b []byte) {
	if !d.hidden {
		_, _ = d.out.Write(b)
	}
}

func (d *decoder) writeByte(b byte) {
	if !d.hidden {
		_ = d.out.WriteByte(b)
	}
}
