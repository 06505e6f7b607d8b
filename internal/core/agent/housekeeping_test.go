package agent_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
	"berth/internal/runtime/render"
)

// The runtime tells of pods that are gone already. A search through all pods for each of
// them would make the end of a pod cost more, the more pods there are.
func TestLateEventsShareOneSearch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given a node that was searched some time ago
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		time.Sleep(10 * time.Second)
		before := n.runtime.Calls("List")

		// when events of a hundred unknown pods come
		for i := range 100 {
			n.agent.Enqueue(t.Context(), pod.UID(fmt.Sprint("gone", i)))
			synctest.Wait()
		}

		// then the runtime is listed at once for the first, and once for all others
		if got := n.runtime.Calls("List") - before; got != 1 {
			t.Errorf("%d lists, want 1", got)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := n.runtime.Calls("List") - before; got != 2 {
			t.Errorf("%d lists, want 2", got)
		}
	})
}

func TestAnUnwantedPodEndsSoonAlsoAmongLateEvents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		time.Sleep(10 * time.Second)
		n.agent.Enqueue(t.Context(), "gone")
		synctest.Wait()

		_, err := n.runtime.RunSandbox(t.Context(), &render.SandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "orphan", Namespace: "default"}, Labels: map[string]string{pod.LabelPodUID: "orphan"},
		}, "")
		must(t, err)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		all, err := n.runtime.List(t.Context())
		must(t, err)
		if len(all) != 1 || all["a"] == nil {
			t.Errorf("want only a, got %v", all)
		}
	})
}

func TestAnEventDuringALongSearchIsFollowedByAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("a"))
		time.Sleep(10 * time.Second)
		before := n.runtime.Calls("List")
		release := n.runtime.Hold("List")
		n.agent.Enqueue(t.Context(), "gone")
		time.Sleep(10 * time.Second)
		n.agent.Enqueue(t.Context(), "orphan")
		time.Sleep(10 * time.Second)
		release()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := n.runtime.Calls("List") - before; got != 2 {
			t.Errorf("%d lists, want 2", got)
		}
	})
}
