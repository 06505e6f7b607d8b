package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// progressBar shows how far something has come: on a terminal as a bar that moves, elsewhere
// as a line now and then. It is on stderr; what a command finds is on stdout.
type progressBar struct {
	w     io.Writer
	what  string
	width int // of the terminal; 0 if it is none
	now   func() time.Time

	began, shown time.Time
	first        int64 // bytes that were there when it began
	started      bool
}

const (
	barWidth   = 24
	barEvery   = 100 * time.Millisecond
	lineEvery  = 5 * time.Second
	eraseLine  = "\r\x1b[K"
	minBarRoom = 60
)

func newBar(cmd *cobra.Command, what string) *progressBar {
	b := &progressBar{w: cmd.ErrOrStderr(), what: what, now: time.Now}
	if f, ok := b.w.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= minBarRoom { //nolint:gosec // likewise
			b.width = width
		}
	}
	b.began = b.now()
	return b
}

// show tells how much of it is done. A total of 0 is not known.
func (b *progressBar) show(done, total int64) {
	now := b.now()
	if !b.started {
		b.started, b.first, b.began = true, done, now
	}
	every := lineEvery
	if b.width > 0 {
		every = barEvery
	}
	if now.Sub(b.shown) < every || done == 0 && total == 0 {
		return
	}
	b.shown = now
	text := b.text(done, total, now)
	if b.width > 0 {
		_, _ = fmt.Fprint(b.w, eraseLine, text[:min(len(text), b.width-1)])
		return
	}
	_, _ = fmt.Fprintln(b.w, text)
}

// text is one line: what, how much, how fast, and how long it will take.
func (b *progressBar) text(done, total int64, now time.Time) string {
	var out strings.Builder
	out.WriteString(b.what)
	if total > 0 && b.width > 0 {
		full := int(min(done, total) * barWidth / total)
		fmt.Fprintf(&out, " [%s%s]", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full))
	}
	fmt.Fprintf(&out, " %s", humanBytes(done))
	if total > 0 {
		fmt.Fprintf(&out, " of %s", humanBytes(total))
	}
	if took := now.Sub(b.began).Seconds(); took >= 1 && done > b.first {
		rate := float64(done-b.first) / took
		fmt.Fprintf(&out, ", %s/s", humanBytes(int64(rate)))
		if total > done {
			left := time.Duration(float64(total-done) / rate * float64(time.Second))
			fmt.Fprintf(&out, ", %s left", left.Round(time.Second))
		}
	}
	return out.String()
}

// end says that it is over.
func (b *progressBar) end(err error) {
	if b.width > 0 {
		_, _ = fmt.Fprint(b.w, eraseLine)
	}
	if err == nil {
		_, _ = fmt.Fprintf(b.w, "%s: done (%s)\n", b.what, b.now().Sub(b.began).Round(100*time.Millisecond))
	}
}
