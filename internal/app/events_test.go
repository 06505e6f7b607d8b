package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/config"
	"berth/internal/config/kubelet"
)

// nodeEvents keeps the reasons of events of the node.
type nodeEvents struct{ reasons []string }

func (e *nodeEvents) RecordNode(_, reason, _ string) { e.reasons = append(e.reasons, reason) }

func TestAKubeletRecordsWhatItsMachineLacks(t *testing.T) {
	// given a resolv.conf with more servers than the C library reads
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte(strings.Repeat("nameserver 10.0.0.1\n", 4)), 0o644); err != nil {
		t.Fatal(err)
	}
	line, err := kubelet.Parse([]string{"--kubeconfig=/k"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := kubelet.Load(line, kubelet.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadKubelet(o, config.Machine{Hostname: "box", Processors: 1})
	if err != nil {
		t.Fatal(err)
	}
	c.ResolvConf = file

	// when an agent starts as kubelet
	var events nodeEvents
	recordMachine(c, false, &events)

	// then it says so, and that cgroups are old
	for _, want := range []string{"CgroupV1", "CheckLimitsForResolvConf"} {
		if !slices.Contains(events.reasons, want) {
			t.Errorf("there is no event %s in %q", want, events.reasons)
		}
	}
	own, err := config.Load("/r", config.Flags{}, nil, config.Machine{Hostname: "box", Processors: 1})
	if err != nil {
		t.Fatal(err)
	}
	events.reasons = nil
	if recordMachine(own, false, &events); len(events.reasons) != 0 {
		t.Errorf("under its own name, berth records %q", events.reasons)
	}
}
