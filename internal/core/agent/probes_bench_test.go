package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/probe"
	"berth/internal/runtime/fake"
)

// BenchmarkFiveHundredProbedPods measures what a whole agent costs while 500 pods run
// and each is asked every 10 s whether it lives and whether it is ready: probes, their
// state file, the loop, the workers and the statuses. What the runtime and a server
// would do is not in it. A round is a period of real time, since it is the share of a
// processor that matters.
func BenchmarkFiveHundredProbedPods(b *testing.B) {
	for name, flapping := range map[string]int{"steady": 0, "5 flap each time": 5} {
		b.Run(name, func(b *testing.B) { benchmarkProbed(b, 500, flapping) })
	}
}

func benchmarkProbed(b *testing.B, pods, flapping int) {
	const period = 10 * time.Second
	dir := b.TempDir()
	var checks, changes atomic.Int64
	flaps := map[string]*atomic.Int64{} // by command
	manager, err := probe.New(probe.Config{
		Exec: func(_ context.Context, _ string, command []string, _ time.Duration) ([]byte, int32, error) {
			if n := flaps[command[0]]; n != nil {
				changes.Add(1)
				return nil, int32(n.Add(1) % 2), nil
			}
			return nil, 0, nil
		},
		Explain: error.Error, Events: &fake.Events{}, Log: slog.New(slog.DiscardHandler), HostIP: func() string { return "127.0.0.1" },
		StateFile: filepath.Join(dir, "probes.json"), ExecSlots: 8,
		OnCheck: func(*v1.Pod, string, string, probe.Outcome, time.Duration) { checks.Add(1) },
	})
	must(b, err)
	var wanted []*v1.Pod
	for i := range pods {
		p := webPod(pod.UID(fmt.Sprint("p", i)))
		ready := fmt.Sprint("ready-", i)
		p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].ReadinessProbe = asks("live", period), asks(ready, period)
		if i < flapping {
			flaps[ready] = new(atomic.Int64)
		}
		wanted = append(wanted, p)
	}
	n := startProbing(b, fake.New(testImage), dir, manager, manager)
	defer n.stop()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); manager.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	n.snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Set, Pods: wanted}
	for until := time.Now().Add(time.Minute); checks.Load() < int64(2*pods); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			b.Fatalf("only %d checks were made", checks.Load())
		}
	}

	checks.Store(0)
	changes.Store(0)
	began, before := time.Now(), used(b)
	for b.Loop() {
		time.Sleep(period)
	}
	seconds := time.Since(began).Seconds()
	b.ReportMetric((used(b)-before).Seconds()*1000/seconds, "cpu-ms/s")
	b.ReportMetric(float64(checks.Load())/seconds, "checks/s")
	b.ReportMetric(float64(changes.Load())/seconds, "changes/s")
	b.ReportMetric(0, "ns/op") // it is the period that decides on it
	if got := checks.Load(); got < int64(2*pods*9/10) {
		b.Errorf("only %d checks were made in %.0f s", got, seconds)
	}
}

func asks(command string, period time.Duration) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}},
		PeriodSeconds: int32(period / time.Second), FailureThreshold: 1,
	}
}

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
