//go:build real

package core

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
	"berth/test/real/kit"
)

func TestBurst(t *testing.T) {
	t.Parallel()
	// given an agent that runs
	n := kit.NewNode(t)
	n.Start()

	// when thirty pods come at once, in two waves
	const wave = 15
	began := time.Now()
	first, names := kit.NumberedPods("a", wave, "sleep")
	n.Apply("z.yaml", first...)
	n.Wait("the first wave to be known", 10*time.Second, func() string { return kit.MissingUnless(len(n.Pods()) == wave) })
	second, more := kit.NumberedPods("b", wave, "sleep")
	names = append(names, more...)
	n.Apply("a.yaml", second...)

	// then all of them run
	var half time.Duration
	n.Wait("all pods to run", 2*time.Minute, func() string {
		count := len(running(n.Pods()))
		if half == 0 && count >= wave {
			half = time.Since(began)
		}
		if count < len(names) {
			return fmt.Sprintf("%d of %d run", count, len(names))
		}
		return ""
	})
	t.Logf("half of %d pods ran after %s, all after %s", len(names), half.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	n.WaitSettled(names...)

	// and they were started in the order in which they came, a few at a time
	slots := runtime.NumCPU()
	starts := podStarts(n)
	for i, s := range starts {
		// The very first find free slots, and do not queue. After that, those who
		// hold slots at the same time may overtake one another.
		if place := slices.Index(names, s.pod); i >= slots && (place < i-2*slots || place > i+2*slots) {
			t.Errorf("%s was started as number %d", s.pod, i)
		}
		if atOnce := underWay(starts, s.from); atOnce > slots {
			t.Errorf("when %s was started, %d pods were being started: there are %d slots", s.pod, atOnce, slots)
		}
	}
}

// underWay counts the pods that were being started at a moment.
func underWay(starts []start, at time.Time) int {
	count := 0
	for _, s := range starts {
		if !s.from.After(at) && s.to.After(at) {
			count++
		}
	}
	return count
}

// start is the time from when a pod's sandbox was made to when its container ran.
type start struct {
	pod      string
	from, to time.Time
}

// podStarts are the starts of all pods, the first one first.
func podStarts(n *kit.Node) []start {
	n.T.Helper()
	ran := map[string]time.Time{}
	for _, c := range n.Containers() {
		status, _ := n.Container(c.Id)
		ran[c.Labels[pod.LabelPodUID]] = time.Unix(0, status.StartedAt)
	}
	var out []start
	for _, s := range n.Sandboxes() {
		if s.State == cri.PodSandboxState_SANDBOX_READY {
			name := strings.TrimSuffix(s.Metadata.Name, "-"+kit.NodeName)
			out = append(out, start{name, time.Unix(0, s.CreatedAt), ran[s.Labels[pod.LabelPodUID]]})
		}
	}
	slices.SortFunc(out, func(a, b start) int { return cmp.Compare(a.from.UnixNano(), b.from.UnixNano()) })
	return out
}
