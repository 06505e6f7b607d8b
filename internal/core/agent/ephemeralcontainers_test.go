package agent_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
	"berth/internal/pods/ephemeral"
	"berth/internal/runtime/fake"
)

func openDebugs(t testing.TB, dir string) *ephemeral.Store {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	keeper, err := statefile.New(statefile.Config{Log: log})
	must(t, err)
	s, err := ephemeral.Open(keeper.File(filepath.Join(dir, "debug.json"), "containers for debugging"), log)
	must(t, err)
	return s
}

func debugger(name string) v1.EphemeralContainer {
	return v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: testImage}}
}

// debuggers are the containers that were added to a pod, and how they are.
func (n *node) debuggers(uid pod.UID) string {
	n.t.Helper()
	var all []string
	for _, s := range n.pod(uid).Status.EphemeralContainerStatuses {
		all = append(all, fmt.Sprint(s.Name, " runs: ", s.State.Running != nil))
	}
	return strings.Join(all, ", ")
}

func TestAContainerIsAddedToARunningPod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// given a static pod that runs
		r, dir := fake.New(testImage), t.TempDir()
		n := startNode(t, r, dir)
		n.wants(webPod("u-1"))
		before := n.app("u-1")
		// when a container is added
		must(t, n.agent.AddContainer(t.Context(), webPod("u-1"), debugger("look")))
		synctest.Wait()
		// then it runs, and the others go on
		if got := n.debuggers("u-1"); got != "look runs: true" {
			t.Errorf("got %q", got)
		}
		if now := n.app("u-1"); now.ContainerID != before.ContainerID {
			t.Error("the container of the pod was restarted")
		}
		// and it stays when the source says again what it wants
		n.wants(webPod("u-1"), webPod("u-2"))
		must(t, n.agent.AddContainer(t.Context(), webPod("u-1"), debugger("too")))
		if got := n.debuggers("u-1"); got != "look runs: true, too runs: true" {
			t.Errorf("got %q", got)
		}
		id := n.pod("u-1").Status.EphemeralContainerStatuses[0].ContainerID
		// and when the agent is restarted
		n.stop()
		n = startNode(t, r, dir)
		defer n.stop()
		n.wants(webPod("u-1"))
		time.Sleep(2 * time.Minute) // housekeeping has been there
		if got := n.debuggers("u-1"); got != "look runs: true, too runs: true" || n.pod("u-1").Status.EphemeralContainerStatuses[0].ContainerID != id {
			t.Errorf("got %q", got)
		}
	})
}

func TestWhatWasAddedGoesWithThePod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("u-1"))
		must(t, n.agent.AddContainer(t.Context(), webPod("u-1"), debugger("look")))
		n.wants()
		time.Sleep(2 * time.Minute)
		n.wants(webPod("u-1")) // the same file once more
		if got := n.debuggers("u-1"); got != "" {
			t.Errorf("got %q", got)
		}
		if len(n.pod("u-1").Spec.EphemeralContainers) > 0 {
			t.Error("the new pod has the container")
		}
	})
}

func TestContainersThatCanNotBeAdded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("u-1"))
		n.binds(bound("u-2"))
		with := func(change func(*v1.EphemeralContainer)) v1.EphemeralContainer {
			c := debugger("look")
			change(&c)
			return c
		}
		must(t, n.agent.AddContainer(t.Context(), webPod("u-1"), debugger("taken")))
		for want, c := range map[string]v1.EphemeralContainer{
			`"A" is not the name of a container`:      debugger("A"),
			`it has a container "taken" already`:      debugger("taken"),
			"it needs an image":                       with(func(c *v1.EphemeralContainer) { c.Image = " " }),
			`there is no container "nope" to look at`: with(func(c *v1.EphemeralContainer) { c.TargetContainerName = "nope" }),
			"have no ports":                           with(func(c *v1.EphemeralContainer) { c.Ports = []v1.ContainerPort{{ContainerPort: 80}} }),
		} {
			if err := n.agent.AddContainer(t.Context(), webPod("u-1"), c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		for _, p := range []*v1.Pod{bound("u-2"), webPod("u-3")} {
			if err := n.agent.AddContainer(t.Context(), p, debugger("look")); err == nil || !strings.Contains(err.Error(), "not a static pod") {
				t.Errorf("%s: got %v", p.UID, err)
			}
		}
	})
}

// The pod may go and come back between the note on disk and the loop.
func TestAContainerIsAddedWhileThePodIsPutBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants(webPod("u-1"))
		n.debugs.meanwhile = func() {
			n.wants()
			n.wants(webPod("u-1"))
		}
		err := n.agent.AddContainer(t.Context(), webPod("u-1"), debugger("look"))
		if err == nil || !strings.Contains(err.Error(), "try again") {
			t.Errorf("got %v", err)
		}
		n.expectPhase("u-1", v1.PodRunning)
		must(t, n.agent.Alive(t.Context()))
	})
}

// notedDebugs let something happen after each note.
type notedDebugs struct {
	*ephemeral.Store
	meanwhile func()
}

func (d *notedDebugs) Add(uid pod.UID, c v1.EphemeralContainer) error {
	err := d.Store.Add(uid, c)
	d.meanwhile()
	return err
}
