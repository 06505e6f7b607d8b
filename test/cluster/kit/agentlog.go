//go:build real

package kit

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/test/lab"
)

// LogMark is a place in the log of an agent.
type LogMark struct {
	node *lab.Node
	at   int
	time time.Time
}

// MarkLog marks the present end of the log of an agent.
func MarkLog(t *testing.T, n *lab.Node) LogMark {
	t.Helper()
	text, err := os.ReadFile(n.Log())
	Must(t, err)
	return LogMark{n, len(text), time.Now()}
}

// Since returns the lines that the agent has logged since the mark was made.
func (m LogMark) Since(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(m.node.Log())
	Must(t, err)
	return string(text[m.at:])
}

var logTime = regexp.MustCompile(`^time=(\S+) `)

// MustBeCalm fails the test if the agent has logged more than a line a second since
// the mark was made, all in all, or the same line twice within a second.
func (m LogMark) MustBeCalm(t *testing.T) {
	t.Helper()
	text, since := m.Since(t), time.Since(m.time)
	lines, last := 0, map[string]time.Time{}
	for line := range strings.Lines(text) {
		lines++
		stamp := logTime.FindStringSubmatch(line)
		if stamp == nil {
			t.Errorf("a line has no time: %s", line)
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, stamp[1])
		Must(t, err)
		said := line[len(stamp[0]):]
		if before, again := last[said]; again && at.Sub(before) < time.Second {
			t.Errorf("said twice within a second: %s", said)
		}
		last[said] = at
	}
	t.Logf("%d lines, %d of them different, were logged in %s", lines, len(last), since.Round(time.Second))
	if float64(lines) > since.Seconds() {
		t.Errorf("that is too much:\n%s", text)
	}
}

// TimeOf is when the agent first logged a text since the mark was made.
func (m LogMark) TimeOf(t *testing.T, text string) time.Time {
	t.Helper()
	for line := range strings.Lines(m.Since(t)) {
		if stamp := logTime.FindStringSubmatch(line); stamp != nil && strings.Contains(line, text) {
			at, err := time.Parse(time.RFC3339Nano, stamp[1])
			Must(t, err)
			return at
		}
	}
	t.Fatalf("the agent did not log %q: %s", text, m.Since(t))
	return time.Time{}
}

// MustComplainRarely fails the test if the agent has warned more than once, and once more in each second, since
// the mark was made.
func (m LogMark) MustComplainRarely(t *testing.T) {
	t.Helper()
	text, since := m.Since(t), time.Since(m.time)
	warnings := strings.Count(text, " level=WARN ") + strings.Count(text, " level=ERROR ")
	t.Logf("%d warnings were logged in %s", warnings, since.Round(time.Second))
	if float64(warnings) > 1+since.Seconds() {
		t.Errorf("that is too much:\n%s", text)
	}
}
