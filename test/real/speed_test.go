//go:build real

package real

import (
	"slices"
	"testing"
	"time"
)

const (
	// gathering is how long the agent waits after a file vanished before it
	// believes that: see internal/intake/source/pace.go.
	gathering = 200 * time.Millisecond
	// ownTime is what berth may add to what the runtime itself takes.
	ownTime = 150 * time.Millisecond
	// noise is what a machine that is busy with other things may add to that.
	noise = 150 * time.Millisecond
)

// This test has the machine for itself, since it measures: it is not parallel.
func TestPodIsGoneSoon(t *testing.T) {
	// given an agent and its runtime, warmed up
	n := newNode(t)
	n.start()
	seen := n.watch()
	byBerth := func() time.Duration {
		n.apply("brief.yaml", newPod("brief", "sleep"))
		n.waitRunning("brief")
		began := time.Now()
		n.remove("brief.yaml")
		_, at := seen.waitGone("brief")
		return at.Sub(began)
	}
	byRuntime := func() time.Duration {
		p := n.makeByHand("brief", nil, "sleep")
		began := time.Now()
		if err := n.removeByHand(p); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	byBerth()
	byRuntime()

	// when pods are removed whose processes end at once, by berth and by the runtime itself
	var berth, runtime []time.Duration
	for range 5 {
		berth, runtime = append(berth, byBerth()), append(runtime, byRuntime())
	}

	// then berth takes hardly longer
	own := median(berth) - median(runtime) - gathering
	t.Logf("gone after %s; the runtime itself takes %s; %s are for the folder to come to rest, and %s berth's own",
		median(berth), median(runtime), gathering, own)
	if own > ownTime+noise {
		t.Errorf("berth takes %s of its own: %v, and the runtime %v", own, berth, runtime)
	}
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2].Round(time.Millisecond)
}
