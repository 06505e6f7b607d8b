package probe

import (
	"context"
	"log/slog"
	"net/http"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// BenchmarkFiveHundredPods measures what 500 pods with one probe each cost. Each
// round is as much work as a minute with a period of 10 s: 3000 checks. They are
// asked every second, so that a round takes 6 s. For httpGet, the servers' part is
// in the figures, too.
func BenchmarkFiveHundredPods(b *testing.B) {
	port := serve(b, false, func(http.ResponseWriter, *http.Request) {})
	b.Run("exec", func(b *testing.B) { benchmark(b, asking("true").ProbeHandler) })
	b.Run("httpGet", func(b *testing.B) { benchmark(b, httpGet(port, "/")) })
}

func benchmark(b *testing.B, handler v1.ProbeHandler) {
	const pods, checks = 500, 3000
	done := make(chan Outcome, checks)
	m, err := New(Config{
		Exec:    func(context.Context, string, []string, time.Duration) ([]byte, int32, error) { return nil, 0, nil },
		Explain: error.Error, Events: noEvents{}, Log: slog.New(slog.DiscardHandler), ExecSlots: 10,
		OnCheck: func(_ *v1.Pod, _, _ string, result Outcome, _ time.Duration) { done <- result },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	for i := range pods {
		p := nth(i)
		p.Spec.Containers[0].ReadinessProbe = nil
		p.Spec.Containers[0].LivenessProbe = &v1.Probe{ProbeHandler: handler, PeriodSeconds: 1}
		m.Watch(p, has(runs(id(i), time.Now().Add(-time.Hour))))
	}
	before := cpu(b)
	for b.Loop() {
		for range checks {
			if result := <-done; result != Success {
				b.Fatal(result)
			}
		}
	}
	b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/min")
	b.ReportMetric(0, "ns/op") // it is the period that decides on it
	cancel()
	<-ended
}

// cpu is the time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type noEvents struct{}

func (noEvents) RecordContainer(*v1.Pod, string, string, string, string) {}
