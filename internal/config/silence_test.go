package config

import (
	"strings"
	"testing"
	"time"
)

func TestSilenceOfTheBundledRuntime(t *testing.T) {
	load := func(f Flags) (*Config, error) {
		return Load("/r", f, nil, Machine{Hostname: "node", Processors: 2, WorkDir: "/w"})
	}
	if c, err := load(Flags{RuntimeSilence: time.Minute}); err != nil || c.RuntimeSilence != time.Minute {
		t.Errorf("got %+v, %v", c, err)
	}
	for want, f := range map[string]Flags{
		"at least 5s":     {RuntimeSilence: time.Second},
		"is never killed": {RuntimeSilence: time.Minute, RuntimeEndpoint: "unix:///run/x.sock"},
	} {
		if _, err := load(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
