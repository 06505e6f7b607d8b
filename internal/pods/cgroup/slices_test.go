package cgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/cgroupname"
	"berth/internal/pods/cgroup/systemd"
	"berth/internal/runtime/render"
)

// fakeSlices are slices that are directories of a machine, with the files that the kernel would make.
type fakeSlices struct {
	m        *machine
	calls    []string
	versions int // how often the version was asked for
	fails    error
}

func (f *fakeSlices) Version(context.Context) (int, error) {
	f.versions++
	return 252, f.fails
}

func (f *fakeSlices) record(verb, slice string, properties []systemd.Property) {
	text := verb + " " + slice
	for _, p := range properties {
		text += fmt.Sprintf(" %s=%v", p.Name, p.Value)
	}
	f.calls = append(f.calls, text)
}

func (f *fakeSlices) Start(_ context.Context, slice string, properties []systemd.Property) error {
	f.record("start", slice, properties)
	dir := strings.TrimPrefix(slicePath(slice), "/")
	if _, err := os.Stat(filepath.Join(f.m.dir, dir)); f.fails != nil || err == nil {
		return f.fails
	}
	for _, name := range []string{"cgroup.controllers", "cgroup.subtree_control", "cgroup.procs", "cpu.weight", "cpu.max", "cpuset.cpus", "memory.max", "pids.max"} {
		f.m.has(map[string]string{filepath.Join(dir, name): ""})
	}
	return nil
}

func (f *fakeSlices) Set(_ context.Context, slice string, properties []systemd.Property) error {
	f.record("set", slice, properties)
	return f.fails
}

func (f *fakeSlices) Stop(_ context.Context, slice string) error {
	f.record("stop", slice, nil)
	if f.fails != nil {
		return f.fails
	}
	return os.RemoveAll(filepath.Join(f.m.dir, slicePath(slice)))
}

// slicePath is the path of a slice whose name has those above it.
func slicePath(slice string) string { return cgroupname.Systemd.Path(cgroupname.Systemd.Name(slice)) }

func (f *fakeSlices) called() []string {
	out := f.calls
	f.calls = nil
	return out
}

func slicedPods(t *testing.T) (*Pods, *fakeSlices, *machine) {
	t.Helper()
	m := v2Machine(t)
	m.has(map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "cpu memory pids"})
	f := &fakeSlices{m: m}
	p, err := NewPods(PodsConfig{
		Tree: m.tree, Owner: owner(t), Driver: func() cgroupname.Driver { return cgroupname.Systemd }, Slices: f, Log: slog.New(slog.DiscardHandler),
		All: func() (render.Cgroup, error) {
			return render.Cgroup{Name: "/berth", Shares: 2048, Memory: 1 << 30, Pids: 1000, CPUs: "0-1,9"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, f, m
}

func TestPodsInSlices(t *testing.T) {
	p, f, m := slicedPods(t)
	const unlimited = uint64(math.MaxUint64)
	pod := render.Cgroup{Name: "/berth/burstable/pod1-2", Shares: 512, Quota: 25_000, Period: 100_000, Memory: 1 << 20}

	// when the first pod comes, then the slices above it are made with their limits, from the top
	if err := p.Make(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	limited := fmt.Sprintf("start berth-burstable-pod1_2.slice CPUWeight=%d CPUQuotaPerSecUSec=250000 CPUQuotaPeriodUSec=100000 MemoryMax=1048576 TasksMax=%d",
		weight(512), unlimited)
	want := []string{
		fmt.Sprintf("start berth.slice CPUWeight=%d MemoryMax=1073741824 TasksMax=1000 AllowedCPUs=[3 2]", weight(2048)),
		"start berth-burstable.slice",
		limited,
		fmt.Sprintf("set berth-burstable.slice CPUWeight=%d", weight(512)),
	}
	if got := f.called(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	const dir = "berth.slice/berth-burstable.slice/berth-burstable-pod1_2.slice/"
	m.expect(map[string]string{dir + "memory.max": "1048576", dir + "cpu.max": "25000 100000", "berth.slice/pids.max": "1000", "berth.slice/cpuset.cpus": "0-1,9"})

	// when it is made again, as a restarted agent does, then only the pod's own limits are renewed
	if err := p.Make(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := f.called(); !slices.Equal(got, []string{limited}) {
		t.Errorf("got %q", got)
	}
	if names, err := p.List(); err != nil || !slices.Equal(names, []string{"pod1-2"}) || !p.Exists(pod.Name) {
		t.Errorf("the pods are %q, %v", names, err)
	}

	// when all slices vanish, then that is seen, and they are made anew with all limits
	if err := os.RemoveAll(filepath.Join(m.dir, "berth.slice")); err != nil {
		t.Fatal(err)
	}
	if p.Exists(pod.Name) {
		t.Error("it is still there")
	}
	if err := p.Make(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := f.called(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// when the pod goes, then its slice does, and the class has no shares of it
	if err := p.Remove(t.Context(), pod.Name); err != nil {
		t.Fatal(err)
	}
	if got := f.called(); !slices.Equal(got, []string{"stop berth-burstable-pod1_2.slice", "set berth-burstable.slice CPUWeight=1"}) {
		t.Errorf("got %q", got)
	}
	if p.Exists(pod.Name) {
		t.Error("it is still there")
	}
}

func TestSlicesOfNoPodsAreRemoved(t *testing.T) {
	p, f, m := slicedPods(t)
	for _, name := range []string{"/berth/pod1", "/berth/besteffort/pod2"} {
		if err := p.Make(t.Context(), render.Cgroup{Name: name, Shares: 2}); err != nil {
			t.Fatal(err)
		}
	}
	// the kernel has no files but those that go with their directory
	strip := func() {
		_ = filepath.WalkDir(filepath.Join(m.dir, "berth.slice"), func(at string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				return os.Remove(at)
			}
			return err
		})
	}
	f.called()
	strip()
	if err := p.RemoveEmpty(t.Context()); err != nil || len(f.called()) > 0 || !exists(t, m.dir, "berth.slice/berth-pod1.slice") {
		t.Errorf("slices with pods are not left alone: %v", err)
	}
	for _, name := range []string{"/berth/pod1", "/berth/besteffort/pod2"} {
		if err := p.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	f.called()
	strip()
	if err := p.RemoveEmpty(t.Context()); err != nil || exists(t, m.dir, "berth.slice") {
		t.Errorf("they are not removed: %v", err)
	}
	if got := f.called(); !slices.Equal(got, []string{"stop berth-besteffort.slice", "stop berth.slice"}) {
		t.Errorf("got %q", got)
	}
}

func TestWithoutSystemdThereAreNoSlices(t *testing.T) {
	p, f, _ := slicedPods(t)
	f.fails = errors.New("no answer")
	if err := p.Make(t.Context(), render.Cgroup{Name: "/berth/pod1", Shares: 2}); !errors.Is(err, f.fails) {
		t.Errorf("got %v", err)
	}
	if err := p.Remove(t.Context(), "/berth/pod1"); !errors.Is(err, f.fails) {
		t.Errorf("got %v", err)
	}
	p.cfg.Slices = nil
	if err := p.Make(t.Context(), render.Cgroup{Name: "/berth/pod1", Shares: 2}); !errors.Is(err, errNoSystemd) {
		t.Errorf("got %v", err)
	}
}

// Pods wait for systemd each on their own, and not one after the other for the limits of all of them.
func TestASilentSystemdIsNotAskedByEachPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f, _ := slicedPods(t)
		f.fails = context.DeadlineExceeded
		for range 3 {
			p.LimitAll(t.Context())
		}
		if f.versions != 1 {
			t.Errorf("asked %d times at once", f.versions)
		}
		time.Sleep(retryBackoff)
		f.fails = nil
		p.LimitAll(t.Context())
		if got := f.called(); len(got) != 1 || !strings.HasPrefix(got[0], "start berth.slice CPUWeight") {
			t.Errorf("a minute later: %q", got)
		}
	})
}

func TestNothingIsTouchedBeforeTheDriverIsKnown(t *testing.T) {
	p, f, _ := slicedPods(t)
	p.cfg.Driver = func() cgroupname.Driver { return "" }
	p.LimitAll(t.Context())
	if err := p.Make(t.Context(), render.Cgroup{Name: "/berth/pod1"}); !errors.Is(err, ErrDriverUnknown) {
		t.Errorf("make: %v", err)
	}
	if err := p.Remove(t.Context(), "/berth/pod1"); !errors.Is(err, ErrDriverUnknown) {
		t.Errorf("remove: %v", err)
	}
	if !p.Exists("/berth/pod1") {
		t.Error("a cgroup of which nothing is known is taken for one that vanished")
	}
	if got := f.called(); len(got) > 0 {
		t.Errorf("systemd was asked to %q", got)
	}
}

func TestPropertiesOfLimits(t *testing.T) {
	const unlimited = uint64(math.MaxUint64)
	full := render.Cgroup{Shares: 1024, Quota: 5500, Period: 10_000, Memory: 4096, Pids: 7}
	for name, test := range map[string]struct {
		of      render.Cgroup
		v2      bool
		version int
		want    []systemd.Property
	}{
		"v2": {full, true, 252, []systemd.Property{
			{Name: "CPUWeight", Value: uint64(100)},
			{Name: "CPUQuotaPerSecUSec", Value: uint64(550_000)},
			{Name: "CPUQuotaPeriodUSec", Value: uint64(10_000)},
			{Name: "MemoryMax", Value: uint64(4096)},
			{Name: "TasksMax", Value: uint64(7)},
		}},
		"v2 of an old systemd": {full, true, 239, []systemd.Property{
			{Name: "CPUWeight", Value: uint64(100)},
			{Name: "CPUQuotaPerSecUSec", Value: uint64(550_000)},
			{Name: "MemoryMax", Value: uint64(4096)},
			{Name: "TasksMax", Value: uint64(7)},
		}},
		"v1": {full, false, 252, []systemd.Property{
			{Name: "CPUShares", Value: uint64(1024)},
			{Name: "CPUQuotaPerSecUSec", Value: uint64(550_000)},
			{Name: "CPUQuotaPeriodUSec", Value: uint64(10_000)},
			{Name: "MemoryLimit", Value: uint64(4096)},
			{Name: "TasksMax", Value: uint64(7)},
		}},
		"without limits": {render.Cgroup{Shares: 2}, true, 252, []systemd.Property{
			{Name: "CPUWeight", Value: uint64(1)}, {Name: "CPUQuotaPerSecUSec", Value: unlimited}, {Name: "MemoryMax", Value: unlimited}, {Name: "TasksMax", Value: unlimited},
		}},
		"a quota between two percents is rounded up": {render.Cgroup{Shares: 2, Quota: 1001, Period: 100_000}, true, 239, []systemd.Property{
			{Name: "CPUWeight", Value: uint64(1)}, {Name: "CPUQuotaPerSecUSec", Value: uint64(20_000)}, {Name: "MemoryMax", Value: unlimited}, {Name: "TasksMax", Value: unlimited},
		}},
	} {
		if got := limitsOf(test.of).properties(test.v2, test.version); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
