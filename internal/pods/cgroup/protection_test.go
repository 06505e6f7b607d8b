package cgroup

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/runtime/render"
)

func TestTheMemoryOfPodsIsProtectedFromTheTop(t *testing.T) {
	p, f, m := slicedPods(t)
	makePod := func(name string, low, least int64) {
		t.Helper()
		if err := p.Make(t.Context(), render.Cgroup{Name: name, Shares: 2, ProtectMemory: true, MemoryMin: least, MemoryLow: low}); err != nil {
			t.Fatal(err)
		}
	}
	protections := func() []string {
		return slices.DeleteFunc(f.called(), func(call string) bool {
			return !strings.HasPrefix(call, "set ") || !strings.Contains(call, "Memory")
		})
	}
	makePod("/berth/pod1", 0, 1000)
	if got := protections(); !slices.Equal(got, []string{"set berth.slice MemoryMin=1000"}) {
		t.Errorf("a Guaranteed pod: %q", got)
	}
	makePod("/berth/burstable/pod2", 200, 0)
	makePod("/berth/burstable/pod3", 30, 0)
	if got := protections(); !slices.Equal(got[len(got)-2:], []string{"set berth.slice MemoryMin=1230", "set berth-burstable.slice MemoryLow=230"}) {
		t.Errorf("with Burstable pods: %q", got)
	}
	m.has(map[string]string{"berth.slice/memory.min": "", "berth.slice/berth-burstable.slice/memory.low": ""}) // the kernel has made them
	if err := p.Remove(t.Context(), "/berth/burstable/pod2"); err != nil {
		t.Fatal(err)
	}
	if got := protections(); !slices.Equal(got, []string{"set berth.slice MemoryMin=1030", "set berth-burstable.slice MemoryLow=30"}) {
		t.Errorf("after one of them is gone: %q", got)
	}
	m.expect(map[string]string{"berth.slice/memory.min": "1030", "berth.slice/berth-burstable.slice/memory.low": "30"})
}
