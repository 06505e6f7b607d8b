package stats

import (
	"testing"

	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/pods/cgroup"
)

// pressed is a world whose cgroups wait for their processors, memory and disks.
type pressed struct{ *world }

func (pressed) Detail(string) cgroup.Detail {
	some := cgroup.Pressure{Some: new(uint64(5000)), Full: new(uint64(1000)), SomeShare: cgroup.PressureShare{Avg10: 1.5}, FullShare: cgroup.PressureShare{Avg300: 0.5}}
	return cgroup.Detail{CPUPressure: some, MemoryPressure: some, IOPressure: some}
}

func TestTheSummaryHasThePressure(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	r := w.reader(t)
	want := api.PSIStats{Some: api.PSIData{Total: 5000, Avg10: 1.5}, Full: api.PSIData{Total: 1000, Avg300: 0.5}}

	// where the kernel counts it for cgroups, pods and containers have it
	r.Counters = pressed{w}
	s, err := r.Summary(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Pods[0]
	for name, got := range map[string]*api.PSIStats{
		"CPU of the pod": p.CPU.PSI, "memory of the pod": p.Memory.PSI, "I/O of the pod": p.IO.PSI,
		"CPU of the container": p.Containers[0].CPU.PSI, "memory of the container": p.Containers[0].Memory.PSI, "I/O of the container": p.Containers[0].IO.PSI,
	} {
		if got == nil || *got != want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if n := s.Node; n.IO == nil || n.IO.PSI.Some.Total != 7000 || n.CPU.PSI != nil { // of CPU and memory, /proc has nothing
		t.Errorf("the node has %+v, %+v", n.IO, n.CPU)
	}

	// pressure on CPU and memory is part of CPU and memory
	r.snapshot = nil
	if s, err = r.Summary(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if p := s.Pods[0]; *p.CPU.PSI != want || *p.Memory.PSI != want || *p.Containers[0].CPU.PSI != want || *p.Containers[0].Memory.PSI != want || p.IO != nil || p.Containers[0].IO != nil || s.Node.IO != nil {
		t.Errorf("got %+v", p)
	}

	// where it does not, they have none
	r.Counters, r.snapshot = w, nil
	if s, err = r.Summary(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if p := s.Pods[0]; p.CPU.PSI != nil || p.Memory.PSI != nil || p.IO != nil || p.Containers[0].IO != nil {
		t.Errorf("got %+v", p)
	}
}

func TestSystemContainersHaveThePressure(t *testing.T) {
	w := newWorld(t)
	w.cpu["/runtime.slice"], w.cpu["/system"], w.cpu["/berth"] = 5e9, 7e9, 9e9
	r := w.reader(t)
	r.Counters, r.AgentCgroup, r.RuntimeCgroup, r.SystemCgroup = pressed{w}, "/kubelet.slice", "/runtime.slice", "/system"
	for _, onlyCPUAndMemory := range []bool{true, false} {
		r.snapshot = nil
		s, err := r.Summary(t.Context(), onlyCPUAndMemory)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Node.SystemContainers) != 4 {
			t.Fatalf("got %+v", s.Node.SystemContainers)
		}
		for _, c := range s.Node.SystemContainers {
			if c.CPU.PSI == nil || c.Memory != nil && c.Memory.PSI == nil || (c.IO == nil) != onlyCPUAndMemory {
				t.Errorf("%s, only CPU and memory %v: got %+v, %+v, %+v", c.Name, onlyCPUAndMemory, c.CPU, c.Memory, c.IO)
			}
		}
	}

	// an agent that was started in a cgroup of others has no pressure of its own
	r.snapshot, r.AgentCgroup = nil, ""
	s, err := r.Summary(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Node.SystemContainers {
		if c.Name == api.SystemContainerKubelet && c.CPU.PSI != nil {
			t.Errorf("got %+v", c.CPU)
		}
	}
}

func TestTheSummaryHasCgroupsOfDaemons(t *testing.T) {
	w := newWorld(t)
	w.cpu["/runtime.slice"], w.cpu["/system"] = 5e9, 7e9
	r := w.reader(t)
	r.RuntimeCgroup, r.SystemCgroup = "/runtime.slice", "/system"
	s, err := r.Summary(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, c := range s.Node.SystemContainers {
		got[c.Name] = *c.CPU.UsageCoreNanoSeconds
	}
	if got[api.SystemContainerRuntime] != 5e9 || got[api.SystemContainerMisc] != 7e9 {
		t.Errorf("got %v", got)
	}
}
