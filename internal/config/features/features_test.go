package features

import (
	"slices"
	"strings"
	"testing"
)

func TestGatesAreSetOverTheirDefaults(t *testing.T) {
	g, err := New(map[string]bool{"MemoryQoS": true, "PodLevelResources": false, "ExecProbeTimeout": true})
	if err != nil {
		t.Fatal(err)
	}
	if !g.Enabled("MemoryQoS") || g.Enabled("PodLevelResources") || !g.Enabled("KubeletCrashLoopBackOffMax") || g.Enabled("NoSuchGate") {
		t.Errorf("got %v", g)
	}
	if got := g.WithoutEffect(); !slices.Equal(got, []string{"PodLevelResources"}) {
		t.Errorf("without effect: %v", got)
	}
}

func TestAllGatesOfAStage(t *testing.T) {
	g, err := New(map[string]bool{"AllAlpha": true, "AllBeta": false, "KubeletCrashLoopBackOffMax": true})
	if err != nil {
		t.Fatal(err)
	}
	for name, gate := range gates {
		want := gate.Default
		switch {
		case name == allAlpha || name == "KubeletCrashLoopBackOffMax" || gate.Stage == Alpha && !gate.Locked:
			want = true
		case name == allBeta || gate.Stage == Beta && !gate.Locked:
			want = false
		}
		if got := g.Enabled(name); name != allBeta && got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		given map[string]bool
		want  string
	}{
		"a misspelt gate":  {map[string]bool{"MemoryQos2": true}, "unrecognized feature gate: MemoryQos2; did you mean MemoryQoS?"},
		"an unknown gate":  {map[string]bool{"WhollyUnheardOfIndeed": true}, "unrecognized feature gate: WhollyUnheardOfIndeed"},
		"a locked gate":    {map[string]bool{"ExecProbeTimeout": false}, "cannot set feature gate ExecProbeTimeout to false, feature is locked to true"},
		"two at once":      {map[string]bool{"ExecProbeTimeout": false, "Nope": true}, "Nope"},
		"the first of two": {map[string]bool{"ExecProbeTimeout": false, "Nope": true}, "ExecProbeTimeout"},
	} {
		if _, err := New(test.given); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
