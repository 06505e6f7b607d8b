package pods

import (
	"strings"
	"testing"
	"time"

	"berth/internal/api"
	"berth/internal/cli/clitest"
	"berth/internal/cli/cmdutil"
)

func TestDrawWaterfall(t *testing.T) {
	at := func(ms int) time.Time { return clitest.Noon().Add(time.Duration(ms) * time.Millisecond) }
	phase := func(name, container string, from, to int) api.Phase {
		p := api.Phase{Name: name, Container: container, Start: at(from)}
		if to >= 0 {
			p.End = new(at(to))
		}
		return p
	}
	w := &api.Waterfall{Seen: at(0), Phases: []api.Phase{
		phase("queue", "", 0, 50), phase("pull", "app", 50, 650), phase("sandbox", "", 100, 300), phase("ready", "", 900, -1),
	}}
	want := `PHASE          START        TOOK
queue           +0ms        50ms  █
pull app       +50ms       600ms   ████████████
sandbox       +100ms       200ms    ████
ready         +900ms      100ms+                    ██
total                      1.00s
`
	if got := drawWaterfall(w, 54, false, at(1000)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Nothing is too narrow, too short or too long to be drawn
	tiny := &api.Waterfall{Phases: []api.Phase{phase("a", "", 5, 5), phase("b", "", 5, 1)}}
	if got := drawWaterfall(tiny, 1, true, at(0)); strings.Count(got, "█") != 2 || !strings.Contains(got, cmdutil.Cyan) {
		t.Errorf("got\n%s", got)
	}
	if got := drawWaterfall(&api.Waterfall{}, 80, false, at(0)); got != "" {
		t.Errorf("got %q", got)
	}
}
