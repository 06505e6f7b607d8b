package agent

import (
	"os"
	"strings"
	"testing"
)

// The unit of systemd starts the agent for as long as it takes, and never ends what the
// agent started.
func TestTheUnitNeverGivesUp(t *testing.T) {
	content, err := os.ReadFile("../../../packaging/berth.service")
	if err != nil {
		t.Fatal(err)
	}
	got, section := map[string]string{}, ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			got[section+name] = value
		}
	}
	for name, want := range map[string]string{
		"[Unit]StartLimitIntervalSec": "0", // no number of starts is too many
		"[Service]Restart":            "always",
		"[Service]RestartSec":         "1",
		"[Service]RestartSteps":       "6",
		"[Service]RestartMaxDelaySec": "60",
		"[Service]KillMode":           "process",
		"[Service]Type":               "notify",
		"[Service]WatchdogSec":        "2min",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
