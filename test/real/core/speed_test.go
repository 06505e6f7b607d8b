//go:build real

package core

import (
	"slices"
	"testing"
	"time"

	"berth/test/real/kit"
)

// This test has the machine for itself, since it measures: it is not parallel.
func TestPodIsGoneSoon(t *testing.T) {
	// given an agent and its runtime, warmed up
	n := kit.NewNode(t)
	n.Start()
	seen := n.Watch()
	byBerth := func() time.Duration {
		n.Apply("brief.yaml", kit.NewPod("brief", "sleep"))
		n.WaitRunning("brief")
		began := time.Now()
		n.RemoveManifest("brief.yaml")
		_, at := seen.WaitGone("brief")
		return at.Sub(began)
	}
	byRuntime := func() time.Duration {
		p := n.CreateRuntimePod("brief", nil, "sleep")
		began := time.Now()
		if err := n.RemoveRuntimePod(p); err != nil {
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
	own := median(berth) - median(runtime) - kit.VanishDelay
	t.Logf("gone after %s; the runtime itself takes %s; %s are for the folder to come to rest, and %s berth's own",
		median(berth), median(runtime), kit.VanishDelay, own)
	if own > kit.OverheadLimit+kit.LoadAllowance {
		t.Errorf("berth takes %s of its own: %v, and the runtime %v", own, berth, runtime)
	}
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2].Round(time.Millisecond)
}
