package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/core/admit"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// hungNode is an agent that was started while the runtime hangs. Pod a ran before.
func hungNode(t *testing.T) (n *node, release func(), before v1.ContainerStatus) {
	t.Helper()
	dir := t.TempDir()
	r := fake.New(testImage)
	first := startNode(t, r, dir)
	first.wants(webPod("a"))
	first.expectPhase("a", v1.PodRunning)
	before = first.app("a")
	first.stop()
	release = r.Hold("List")
	n = startNode(t, r, dir)
	synctest.Wait()
	return n, release, before
}

func TestPodsWaitForARuntimeThatHangsAndTheLoopDoesNot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, release, before := hungNode(t)
		defer n.stop()
		n.becomes(func(m *admit.Node) { m.ShuttingDown = true }) // a new pod would be rejected
		reads, sandboxes := n.runtime.Calls("Pod"), n.runtime.Calls("RunSandbox")

		// when an hour passes, then pods are shown, nothing is asked for, and the loop goes round
		n.wants(webPod("a"))
		time.Sleep(time.Hour)
		if p := n.pod("a"); p.Status.Phase != v1.PodUnknown || p.Status.Reason != "ContainerRuntimeNotReady" {
			t.Errorf("it is shown as %+v", p.Status)
		}
		if s := n.upstream.Published("web-a"); s.Phase != "" {
			t.Errorf("published %+v, and nothing is known", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.agent.Alive(ctx); err != nil {
			t.Error(err)
		}
		if n.runtime.Calls("Pod") != reads || n.runtime.Calls("RunSandbox") != sandboxes || len(n.pool.Lives()) != 0 {
			t.Errorf("%d reads, %d sandboxes, workers %v", n.runtime.Calls("Pod")-reads, n.runtime.Calls("RunSandbox")-sandboxes, n.pool.Lives())
		}

		// when it answers, then the pod goes on as it was
		release()
		n.expectPhase("a", v1.PodRunning)
		if after := n.app("a"); after.ContainerID != before.ContainerID || after.RestartCount != before.RestartCount {
			t.Errorf("it was %+v and is %+v", before, after)
		}
	})
}

func TestWhatHappensToPodsBeforeTheFirstListCounts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, release, _ := hungNode(t)
		defer n.stop()
		bound := webPod("b")
		bound.Annotations[pod.AnnotationSource] = pod.SourceAPI
		bound.Status = v1.PodStatus{Phase: v1.PodRunning}
		gone := webPod("c")
		gone.Annotations[pod.AnnotationSource] = pod.SourceAPI

		// given pods that come, change and go while nothing is known
		n.wants(webPod("a"))
		n.binds(bound, gone)
		n.expectPhase("b", v1.PodRunning) // as the API server last knew it
		leaving := bound.DeepCopy()
		leaving.DeletionTimestamp, leaving.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(1))
		n.binds(leaving)
		n.wants() // the file of a is removed
		must(t, n.agent.Hold(t.Context(), pod.Cause{Description: "drained"}))
		must(t, n.agent.Resume(t.Context()))
		if len(n.pool.Lives()) != 0 {
			t.Fatalf("workers: %v", n.pool.Lives())
		}

		// when the runtime answers, then all of that is done
		release()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if released := n.upstream.Released(); len(released) != 1 || released[0] != "web-b" {
			t.Errorf("released %v", released)
		}
		left, err := n.runtime.List(t.Context())
		if err != nil || len(left) != 0 {
			t.Errorf("the runtime holds %v: %v", left, err)
		}
	})
}

func TestAFirstListThatFailsIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		r.Fail("List", errors.New("connection refused"))
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		time.Sleep(time.Minute)
		n.expectPhase("a", v1.PodUnknown)
		r.Fail("List", nil)
		time.Sleep(time.Second)
		n.expectPhase("a", v1.PodRunning)
	})
}

// What is asked of a runtime that hangs does not pile up: there is one call for each pod, and
// a few for all of them.
func TestARuntimeThatHangsForAnHourIsAskedOnceForEachPod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const count = 20
		r := fake.New(testImage)
		n := startNode(t, r, t.TempDir())
		defer n.stop()
		var pods []*v1.Pod
		for i := range count {
			pods = append(pods, webPod(pod.UID(fmt.Sprint("p", i))))
		}
		n.wants(pods...)
		time.Sleep(time.Minute)
		for _, p := range pods {
			n.expectPhase(p.UID, v1.PodRunning)
		}
		var releases []func()
		for _, call := range []string{"List", "Pod", "StopContainer", "StopSandbox", "RunSandbox", "Ready", "ImageRef"} {
			releases = append(releases, r.Hold(call))
		}
		// when things go on to happen for an hour
		for range 60 {
			for _, p := range pods {
				n.agent.Enqueue(t.Context(), p.UID)
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if waiting := r.Waiting(); waiting > count+3 {
			t.Errorf("%d calls wait for an answer", waiting)
		}
		// then nothing was done to the pods, and all is well when it answers
		for _, release := range releases {
			release()
		}
		time.Sleep(time.Minute)
		for _, p := range pods {
			n.expectPhase(p.UID, v1.PodRunning)
			if c := n.app(p.UID); c.RestartCount != 0 {
				t.Errorf("%s was restarted %d times", p.UID, c.RestartCount)
			}
		}
	})
}

// A pod that ran before the agent was restarted has its room, however young it is.
func TestPodsThatRanAreTakenInBeforeNewOnes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, release, _ := hungNode(t)
		defer n.stop()
		hasRoomForOne(n)
		fresh := greedy("Z-fresh")
		fresh.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		n.binds(fresh)
		n.wants(webPod("a"))
		release()
		n.expectPhase("a", v1.PodRunning)
		n.expectPhase("Z-fresh", v1.PodFailed)
	})
}
