package images

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/internal/lib/progress"
)

// progressBar shows the progress of a transfer on stderr: on a terminal as a bar, elsewhere as a line
// every lineInterval.
type progressBar struct {
	w     io.Writer
	what  string
	width int // of the terminal; 0: stderr is none
	now   func() time.Time

	began, shown time.Time
}

const (
	barWidth       = 24
	barInterval    = 100 * time.Millisecond
	lineInterval   = 5 * time.Second
	eraseLine      = "\r\x1b[K"
	minBarTerminal = 60
)

func newBar(cmd *cobra.Command, what string) *progressBar {
	b := &progressBar{w: cmd.ErrOrStderr(), what: what, now: time.Now}
	if f, ok := b.w.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= minBarTerminal { //nolint:gosec // likewise
			b.width = width
		}
	}
	b.began = b.now()
	return b
}

// show prints the progress, unless it did so less than an interval ago.
func (b *progressBar) show(p progress.Progress) {
	now := b.now()
	every := lineInterval
	if b.width > 0 {
		every = barInterval
	}
	if now.Sub(b.shown) < every || !p.Known() {
		return
	}
	b.shown = now
	text := b.text(p)
	if b.width > 0 {
		_, _ = fmt.Fprint(b.w, eraseLine, text[:min(len(text), b.width-1)])
		return
	}
	_, _ = fmt.Fprintln(b.w, text)
}

// text returns the line of a progress.
func (b *progressBar) text(p progress.Progress) string {
	bar := ""
	if p.Total > 0 && b.width > 0 {
		full := int(min(p.Done, p.Total) * barWidth / p.Total)
		bar = fmt.Sprintf(" [%s%s]", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full))
	}
	return b.what + bar + " " + p.String()
}

// end removes the bar, and prints how long the transfer took unless it failed.
func (b *progressBar) end(err error) {
	if b.width > 0 {
		_, _ = fmt.Fprint(b.w, eraseLine)
	}
	if err == nil {
		_, _ = fmt.Fprintf(b.w, "%s: done (%s)\n", b.what, b.now().Sub(b.began).Round(100*time.Millisecond))
	}
}
