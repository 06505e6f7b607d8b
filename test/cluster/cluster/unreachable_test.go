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

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// catchUpTimeout is how long a node may take, once the API server is back, until all that
// happened meanwhile is known there, and all that is new is known here.
const catchUpTimeout = 5 * time.Second

// outageTime is how long the API server is away: five minutes, unless BERTH_OUTAGE says
// otherwise. They cost no work, so other tests run meanwhile.
func outageTime(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("BERTH_OUTAGE"), "5m"))
	kit.Must(t, err)
	return d
}

func TestPodsDoNotNoticeThatTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager)
	n := kit.JoinNode(t, plane, "one")
	admin := kit.Client(t, plane, control.Admin())
	pods := kit.PodsIn(t, admin, "default")

	// Given pods that run and pods that crash, ...
	var steady []string
	for i := range 14 {
		steady = append(steady, fmt.Sprintf("steady-%d", i))
		pods.MustCreate(kit.OnNode(kit.WorkloadPod(steady[i], "serve", ":8080"), "one"))
	}
	for i := range 3 {
		pods.MustCreate(kit.OnNode(kit.WorkloadPod(fmt.Sprintf("crashing-%d", i), "exit", "1"), "one"))
	}
	before := map[string]kit.ContainerInstance{}
	for _, name := range steady {
		before[name] = kit.InstanceOf(pods.Await(name, "ready", kit.IsReady))
	}
	// ... one that is about to end, one that is about to go, and some that have only just come, ...
	pods.MustCreate(kit.OnNode(kit.WithoutRestart(kit.WorkloadPod("ending", "exit", "4", "after", "10s")), "one"), kit.OnNode(kit.WorkloadPod("going", "activity", "going", "3s"), "one"))
	pods.Await("ending", "ready", kit.IsReady)
	pods.Await("going", "ready", kit.IsReady)
	kit.Must(t, pods.Delete(t.Context(), "going", metav1.DeleteOptions{GracePeriodSeconds: new(int64(30))}))
	var coming []string
	for i := range 3 {
		coming = append(coming, fmt.Sprintf("coming-%d", i))
		pods.MustCreate(kit.OnNode(kit.WorkloadPod(coming[i], "sleep"), "one"))
	}

	// ... when the API server is away for a while, and the agent is restarted meanwhile.
	plane.Kill(control.APIServer)
	log := kit.MarkLog(t, n)
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
	kit.Must(t, n.Start())
	wait(away - away/2)
	log.MustBeCalm(t)
	kit.Must(t, plane.Start(t.Context(), control.APIServer))
	back := time.Now()

	// Then all catches up, ...
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("new", "sleep"), "one"))
	left := func() time.Duration { return max(time.Until(back.Add(catchUpTimeout)), 0) }
	pods.AwaitWithin(left(), "ending", "failed", func(p *corev1.Pod) bool {
		return kit.HasPhase(corev1.PodFailed)(p) && p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 4
	})
	pods.AwaitWithin(left(), "going", "gone", kit.IsGone)
	for _, name := range append(coming, "new") {
		pods.AwaitWithin(left(), name, "ready", kit.IsReady)
	}
	t.Logf("away for %s, all was well again %s after", away, time.Since(back).Round(time.Millisecond))

	// ... and nothing happened to those that ran.
	kit.Must(t, plane.AwaitNodes(t.Context()))
	for _, name := range steady {
		kit.MustKeepInstance(t, pods.AwaitWithin(catchUpTimeout, name, "ready", kit.IsReady), before[name])
	}
}
