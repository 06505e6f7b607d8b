//go:build real

package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/telemetry/event"
	"berth/test/real/kit"
)

// What a pod leaves for others to read: links to its logs, and events.

func TestLogLinks(t *testing.T) {
	t.Parallel()
	// given a pod with two containers
	n := kit.NewNode(t)
	n.Configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 1s\n")
	pair := kit.NewPod("pair", "activity", "app", "0s")
	pair.Spec.Containers = append(pair.Spec.Containers, kit.NewContainer("side", "sleep"))
	n.Apply("pair.yaml", pair)
	n.Start()
	p := n.WaitRunning("pair")["pair"]

	// then each has a link that tells all of its names, and leads to its log
	link := func(p v1.Pod, container string) string {
		return filepath.Join(n.Root, "log", "containers", fmt.Sprintf("%s_default_%s-%s.log", p.Name, container, kit.ContainerIDs(p)[container]))
	}
	mustLink(n, p, link(p, "app"), link(p, "side"))
	n.Wait("the log behind the link", 10*time.Second, func() string {
		text, err := os.ReadFile(link(p, "app"))
		return kit.MissingUnless(err == nil && strings.Contains(string(text), "app start"))
	})

	// when a container is restarted, then that of the one before stays, as long as it does
	links := []string{link(p, "app")}
	for restarts := int32(1); restarts <= 2; restarts++ {
		_, pid := n.Container(kit.ContainerIDs(p)["app"])
		kit.KillProcess(t, pid)
		p = n.WaitPod("pair", "runs again", kit.StartTimeout, func(p v1.Pod) string {
			return kit.MissingUnless(kit.IsRunning(p) && kit.AppStatus(p).RestartCount == restarts)
		})
		links = append(links, link(p, "app"))
	}
	n.Wait("the oldest container to be gone", 10*time.Second, func() string { return kit.MissingUnless(len(n.Containers()) == 3) })
	mustLink(n, p, links[1], links[2], link(p, "side"))

	// when the pod is removed, then they go with it
	n.RemoveManifest("pair.yaml")
	n.WaitGone("pair")
	mustLink(n, p)
}

// mustLink wants a pod to have these links to its logs, and no others.
func mustLink(n *kit.Node, p v1.Pod, want ...string) {
	n.T.Helper()
	slices.Sort(want)
	n.Wait("the links to the logs", 5*time.Second, func() string {
		if got := n.LogLinks(p); !slices.Equal(got, want) {
			return fmt.Sprintf("they are %v instead of %v", got, want)
		}
		return ""
	})
}

func TestEventsOfAPod(t *testing.T) {
	t.Parallel()
	// given a pod whose container crashed, and another one
	n := kit.NewNode(t)
	n.Apply("web.yaml", kit.NewPod("web", "exit", "1", "after", "200ms"))
	n.Apply("other.yaml", kit.NewPod("other", "sleep"))
	n.Start()
	p := n.WaitPod("web", "waits", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.AppStatus(p).RestartCount == 1 && kit.AppStatus(p).State.Waiting != nil)
	})
	n.WaitRunning("other")

	// then its events are listed, in order, with their counts
	n.WaitEvent(p, event.BackOff)
	if e := n.WaitEvent(p, event.Started); e.Count != 2 || e.Type != v1.EventTypeNormal || e.InvolvedObject.FieldPath != "spec.containers{app}" {
		t.Errorf("it was started twice: %+v", e)
	}
	lists := func(what string, args ...string) {
		t.Helper()
		text := n.MustBerth(args...)
		for _, reason := range []string{event.Pulled, event.Created, event.Started, event.BackOff} {
			if !strings.Contains(text, reason) {
				t.Errorf("%s: there is nothing about %s:\n%s", what, reason, text)
			}
		}
		if strings.Contains(text, "pod/other") {
			t.Errorf("%s: other pods are reported:\n%s", what, text)
		}
	}
	lists("while it is there", "get", "events", "--for", "web")
	lists("in its description", "describe", "pod", "web")

	// when it is removed, and the agent killed, then they are still listed
	n.RemoveManifest("web.yaml")
	n.WaitGone("web")
	n.KillAgent()
	n.Start()
	lists("after all is over", "get", "events", "--for", "web")

	// and when a pod ends while the agent runs, that has an event, too
	other := n.WaitRunning("other")["other"]
	n.RemoveManifest("other.yaml")
	n.WaitEvent(other, event.Killing)
}
