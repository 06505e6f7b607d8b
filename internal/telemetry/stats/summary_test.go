package stats

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/runtime/cri"
)

func TestTheSummaryOfAPod(t *testing.T) {
	// Given a pod with volumes, of which the runtime knows what it wrote,
	w := newWorld(t)
	w.run(t, "web", emptyDir("scratch"), claim("data", "orders"),
		v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}})
	w.podStats = []cri.PodStats{{Containers: []cri.ContainerStats{{ID: "id-web", Writable: cri.Filesystem{Used: new(uint64(4096)), Inodes: new(uint64(2))}}}}}
	r := w.reader(t)

	// when a summary is requested,
	s, err := r.Summary(t.Context(), false)
	if err != nil || len(s.Pods) != 1 || len(s.Pods[0].Containers) != 1 {
		t.Fatalf("got %+v, %v", s, err)
	}

	// then it has all of it, and nothing else.
	p, c := s.Pods[0], s.Pods[0].Containers[0]
	if p.PodRef != (api.PodReference{Name: "web", Namespace: "shop", UID: "uid-web"}) || !p.StartTime.Equal(new(metav1.Unix(100, 0))) {
		t.Errorf("the pod is %+v since %v", p.PodRef, p.StartTime)
	}
	if c.Name != "app" || !c.StartTime.Equal(new(metav1.Unix(200, 0))) {
		t.Errorf("the container is %s since %v", c.Name, c.StartTime)
	}
	volumes := map[string]api.VolumeStats{}
	for _, v := range p.VolumeStats {
		volumes[v.Name] = v
	}
	if _, podStats := volumes["host"]; podStats || len(volumes) != 2 {
		t.Errorf("volumes are %v", volumes)
	}
	if ref := volumes["data"].PVCRef; ref == nil || *ref != (api.PVCReference{Name: "orders", Namespace: "shop"}) {
		t.Errorf("the claim is %v", ref)
	}
	scratch := volumes["scratch"]
	if err := errors.Join(
		has("pod CPU", p.CPU.UsageCoreNanoSeconds, 3e9), has("container CPU", c.CPU.UsageCoreNanoSeconds, 2e9),
		has("working set", c.Memory.WorkingSetBytes, 900), has("available", c.Memory.AvailableBytes, 4100),
		has("swap", c.Swap.SwapUsageBytes, 30), has("swap left", c.Swap.SwapAvailableBytes, 70),
		has("processes", p.ProcessStats.ProcessCount, 4),
		has("received", p.Network.RxBytes, 70), has("sent", p.Network.TxBytes, 2000),
		has("written", c.Rootfs.UsedBytes, 4096), has("files of the emptyDir", scratch.InodesUsed, 2), has("log files", c.Logs.InodesUsed, 2),
		has("ephemeral", p.EphemeralStorage.UsedBytes, 4096+*scratch.UsedBytes+*c.Logs.UsedBytes),
		has("ephemeral inodes", p.EphemeralStorage.InodesUsed, 2+2+2),
	); err != nil {
		t.Error(err)
	}
	if *scratch.UsedBytes < 5000 || *scratch.CapacityBytes < *scratch.UsedBytes {
		t.Errorf("the emptyDir holds %d of %d", *scratch.UsedBytes, *scratch.CapacityBytes)
	}
}

func TestTheSummaryOfTheNode(t *testing.T) {
	w := newWorld(t)
	w.cpu["/berth"] = 1e9
	r := w.reader(t)

	s, err := r.Summary(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}

	n := s.Node
	if n.NodeName != "box" || !n.StartTime.Equal(new(metav1.Unix(1700000000, 0))) {
		t.Errorf("the node is %s since %v", n.NodeName, n.StartTime)
	}
	if len(n.SystemContainers) != 2 || n.SystemContainers[0].Name != "pods" || n.SystemContainers[1].Name != "kubelet" {
		t.Errorf("system containers are %+v", n.SystemContainers)
	}
	if err := errors.Join(
		has("CPU", n.CPU.UsageCoreNanoSeconds, 166*1e7), // without idle and waiting
		has("usage", n.Memory.UsageBytes, 700<<10), has("working set", n.Memory.WorkingSetBytes, 600<<10),
		has("available", n.Memory.AvailableBytes, 400<<10), has("faults", n.Memory.PageFaults, 80),
		has("swap", n.Swap.SwapUsageBytes, 100<<10), has("swap left", n.Swap.SwapAvailableBytes, 400<<10),
		has("received", n.Network.RxBytes, 1000), has("send errors", n.Network.TxErrors, 3),
		has("images", n.Runtime.ImageFs.UsedBytes, 777), has("pods", n.SystemContainers[0].CPU.UsageCoreNanoSeconds, 1e9),
	); err != nil {
		t.Error(err)
	}
	if len(n.Network.Interfaces) != 1 || n.Network.Name != "eth0" {
		t.Errorf("interfaces are %+v", n.Network)
	}
	if *n.Rlimit.MaxPID != 32768 || *n.Rlimit.NumOfRunningProcesses != 80 {
		t.Errorf("processes are %+v", n.Rlimit)
	}
	if n.Fs == nil || *n.Fs.CapacityBytes == 0 {
		t.Errorf("the file system is %+v", n.Fs)
	}
}

func TestOnlyCPUAndMemory(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web", emptyDir("scratch"))
	r := w.reader(t)

	s, err := r.Summary(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}

	p := s.Pods[0]
	if p.VolumeStats != nil || p.Network != nil || p.EphemeralStorage != nil || p.Containers[0].Logs != nil || s.Node.Fs != nil || s.Node.Network != nil {
		t.Errorf("more was reported: %+v", p)
	}
	if p.CPU == nil || p.Containers[0].Memory == nil || w.asked != 0 {
		t.Errorf("got %+v, and the runtime was asked %d times", p, w.asked)
	}
}

func TestRatesComeFromTwoSamples(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	r := w.reader(t)
	group := "/berth/poduid-web"

	// Given a first look, which takes its two samples in a row,
	first, err := r.Summary(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := has("rate", first.Pods[0].CPU.UsageNanoCores, 0); err != nil {
		t.Error(err)
	}

	// when half a second of CPU is used in about two seconds,
	w.burn(group, 5e8)
	r.rates[group] = sample{at: time.Now().Add(-2 * time.Second), total: 3e9}
	r.snapshot = nil
	second, err := r.Summary(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}

	// then it is a quarter of a core.
	if rate := *second.Pods[0].CPU.UsageNanoCores; rate < 2.4e8 || rate > 2.5e8 {
		t.Errorf("the rate is %d", rate)
	}
}

func TestAPodThatBeganSinceTheLastSampleHasARate(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	r := w.reader(t)
	if _, err := r.Summary(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	w.run(t, "young")
	r.snapshot = nil
	s, err := r.Summary(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Pods {
		if p.CPU.UsageNanoCores == nil || p.Containers[0].CPU.UsageNanoCores == nil {
			t.Errorf("pod %s has no rate", p.PodRef.Name)
		}
	}
}

func TestRates(t *testing.T) {
	r := rates{}
	start := time.Unix(0, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, step := range []struct {
		ms    int
		total uint64
		want  *uint64
	}{
		{0, 100, nil},                   // one sample is none
		{1000, 1100, new(uint64(1000))}, // a second later
		{1050, 9999, new(uint64(1000))}, // too soon: as before
		{2000, 500, nil},                // it began anew
		{3000, 500, new(uint64(0))},     // idle is a rate
		{3000 + 61_000, 99999, nil},     // too long ago
		{65_000, 199_999, new(uint64(100_000))},
	} {
		got := r.add("x", at(step.ms), &step.total)
		if (got == nil) != (step.want == nil) || (got != nil && *got != *step.want) {
			t.Errorf("at %d ms: got %v, want %v", step.ms, got, step.want)
		}
	}
	r.prune(at(65_001))
	if len(r) != 0 {
		t.Error("what was not sampled is kept")
	}
}
