//go:build real

package cluster

import (
	"cmp"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/lab/control"
)

// catchUp is how long a node may take, once the API server is back, until all that
// happened meanwhile is known there, and all that is new is known here.
const catchUp = 5 * time.Second

// outageTime is how long the API server is away: five minutes, unless BERTH_OUTAGE says
// otherwise. They cost no work, so other tests run meanwhile.
func outageTime(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("BERTH_OUTAGE"), "5m"))
	must(t, err)
	return d
}

func TestPodsDoNotNoticeThatTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	plane := newPlane(t, control.ControllerManager)
	n := joinNode(t, plane, "one")
	admin := clientOf(t, plane, control.Admin())
	pods := podsIn(t, admin, "default")

	// Given pods that run and pods that crash, ...
	var steady []string
	for i := range 14 {
		steady = append(steady, fmt.Sprintf("steady-%d", i))
		pods.create(onNode(workloadPod(steady[i], "serve", ":8080"), "one"))
	}
	for i := range 3 {
		pods.create(onNode(workloadPod(fmt.Sprintf("crashing-%d", i), "exit", "1"), "one"))
	}
	before := map[string]life{}
	for _, name := range steady {
		before[name] = lifeOf(pods.await(name, "ready", isReady))
	}
	// ... one that is about to end, one that is about to go, and some that have only just come, ...
	pods.create(onNode(once(workloadPod("ending", "exit", "4", "after", "10s")), "one"), onNode(workloadPod("going", "diary", "going", "3s"), "one"))
	pods.await("ending", "ready", isReady)
	pods.await("going", "ready", isReady)
	must(t, pods.Delete(t.Context(), "going", metav1.DeleteOptions{GracePeriodSeconds: new(int64(30))}))
	var coming []string
	for i := range 3 {
		coming = append(coming, fmt.Sprintf("coming-%d", i))
		pods.create(onNode(workloadPod(coming[i], "sleep"), "one"))
	}

	// ... when the API server is away for a while, and the agent is restarted meanwhile.
	plane.Kill(control.APIServer)
	log := markLog(t, n)
	away := outageTime(t)
	wait := func(d time.Duration) {
		t.Helper()
		select {
		case <-time.After(d):
		case <-t.Context().Done():
		}
		if !n.Running() {
			t.Fatal("the agent has ended")
		}
	}
	wait(away / 2)
	n.Kill()
	must(t, n.Start())
	wait(away - away/2)
	log.mustBeCalm(t)
	must(t, plane.Start(t.Context(), control.APIServer))
	back := time.Now()

	// Then all catches up, ...
	pods.create(onNode(workloadPod("new", "sleep"), "one"))
	left := func() time.Duration { return max(time.Until(back.Add(catchUp)), 0) }
	pods.awaitWithin(left(), "ending", "failed", func(p *corev1.Pod) bool {
		return hasPhase(corev1.PodFailed)(p) && p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 4
	})
	pods.awaitWithin(left(), "going", "gone", isGone)
	for _, name := range append(coming, "new") {
		pods.awaitWithin(left(), name, "ready", isReady)
	}
	t.Logf("away for %s, all was well again %s after", away, time.Since(back).Round(time.Millisecond))

	// ... and nothing happened to those that ran.
	must(t, plane.AwaitNodes(t.Context()))
	for _, name := range steady {
		mustBeSame(t, pods.awaitWithin(catchUp, name, "ready", isReady), before[name])
	}
}
