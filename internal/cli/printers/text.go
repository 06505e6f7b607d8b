package printers

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"berth/internal/lib/pod"
)

// OneLine joins the lines of a text.
func OneLine(text string) string {
	var lines []string
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, " ")
}

// Age formats the time since t, as kubectl does.
func Age(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// OrNone returns <none> for an empty text.
func OrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// Refusal formats a refused manifest in one line.
func Refusal(r pod.Refusal) string {
	where := r.Origin
	if r.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, r.Line)
	}
	var more []string
	if r.Pod != "" {
		more = append(more, "pod "+r.Pod)
	}
	if r.Object != "" {
		more = append(more, r.Object)
	}
	switch {
	case r.Kept && r.Object != "":
		more = append(more, "the last good version stays in force")
	case r.Kept:
		more = append(more, "the last good version keeps running")
	}
	text := where + ": " + OneLine(r.Message)
	if len(more) > 0 {
		text += " (" + strings.Join(more, "; ") + ")"
	}
	return text
}

// Bool formats a bool as kubectl does.
func Bool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// Plural formats a number with its noun.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Cores formats nanocores as 'kubectl top' does.
func Cores(nano *uint64) string {
	if nano == nil {
		return "<unknown>"
	}
	return fmt.Sprintf("%dm", (*nano+999_999)/1_000_000)
}

// Mebibytes formats bytes as 'kubectl top' does.
func Mebibytes(n *uint64) string {
	if n == nil {
		return "<unknown>"
	}
	return fmt.Sprintf("%dMi", *n>>20)
}
