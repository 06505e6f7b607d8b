//go:build real

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
	"berth/internal/telemetry/event"
)

// What a pod leaves for others to read: links to its logs, and events.

func TestLogLinks(t *testing.T) {
	t.Parallel()
	// given a pod with two containers
	n := newNode(t)
	n.configure("crashLoopBackOff:\n  maxContainerRestartPeriod: 1s\n")
	pair := newPod("pair", "diary", "app", "0s")
	pair.Spec.Containers = append(pair.Spec.Containers, newContainer("side", "sleep"))
	n.apply("pair.yaml", pair)
	n.start()
	p := n.waitRunning("pair")["pair"]

	// then each has a link that tells all of its names, and leads to its log
	link := func(p v1.Pod, container string) string {
		return filepath.Join(n.root, "log", "containers", fmt.Sprintf("%s_default_%s-%s.log", p.Name, container, ids(p)[container]))
	}
	n.mustLink(p, link(p, "app"), link(p, "side"))
	n.wait("the log behind the link", 10*time.Second, func() string {
		text, err := os.ReadFile(link(p, "app"))
		return boolText(err == nil && strings.Contains(string(text), "app start"))
	})

	// when a container is restarted, then that of the one before stays, as long as it does
	links := []string{link(p, "app")}
	for restarts := int32(1); restarts <= 2; restarts++ {
		_, pid := n.container(ids(p)["app"])
		kill(t, pid)
		p = n.waitPod("pair", "runs again", startLimit, func(p v1.Pod) string {
			return boolText(isRunning(p) && app(p).RestartCount == restarts)
		})
		links = append(links, link(p, "app"))
	}
	n.wait("the oldest container to be gone", 10*time.Second, func() string { return boolText(len(n.containers()) == 3) })
	n.mustLink(p, links[1], links[2], link(p, "side"))

	// when the pod is removed, then they go with it
	n.remove("pair.yaml")
	n.waitGone("pair")
	n.mustLink(p)
}

// mustLink wants a pod to have these links to its logs, and no others.
func (n *node) mustLink(p v1.Pod, want ...string) {
	n.t.Helper()
	slices.Sort(want)
	n.wait("the links to the logs", 5*time.Second, func() string {
		if got := n.links(p); !slices.Equal(got, want) {
			return fmt.Sprintf("they are %v instead of %v", got, want)
		}
		return ""
	})
}

func TestEventsOfAPod(t *testing.T) {
	t.Parallel()
	// given a pod whose container crashed, and another one
	n := newNode(t)
	n.apply("web.yaml", newPod("web", "exit", "1", "after", "200ms"))
	n.apply("other.yaml", newPod("other", "sleep"))
	n.start()
	p := n.waitPod("web", "waits", startLimit, func(p v1.Pod) string {
		return boolText(app(p).RestartCount == 1 && app(p).State.Waiting != nil)
	})
	n.waitRunning("other")

	// then what happened to it is told, in order, and how often
	n.waitEvent(p, event.BackOff)
	if e := n.waitEvent(p, event.Started); e.Count != 2 || e.Type != v1.EventTypeNormal || e.InvolvedObject.FieldPath != "spec.containers{app}" {
		t.Errorf("it was started twice: %+v", e)
	}
	lists := func(what string, args ...string) {
		t.Helper()
		text := n.must(args...)
		for _, reason := range []string{event.Pulled, event.Created, event.Started, event.BackOff} {
			if !strings.Contains(text, reason) {
				t.Errorf("%s: nothing is told of %s:\n%s", what, reason, text)
			}
		}
		if strings.Contains(text, "pod/other") {
			t.Errorf("%s: other pods are told of:\n%s", what, text)
		}
	}
	lists("while it is there", "get", "events", "--for", "web")
	lists("in its description", "describe", "pod", "web")

	// when it is removed, and the agent killed, then it is told still
	n.remove("web.yaml")
	n.waitGone("web")
	n.crash()
	n.start()
	lists("after all is over", "get", "events", "--for", "web")

	// and when a pod ends while it runs, that is told as well
	other := n.waitRunning("other")["other"]
	n.remove("other.yaml")
	n.waitEvent(other, event.Killing)
}

// eventsOf is what happened to a pod.
func (n *node) eventsOf(p v1.Pod) []v1.Event {
	n.t.Helper()
	c, err := client.New(n.root)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	list, err := c.Events(n.t.Context(), client.EventFilter{Namespace: p.Namespace, Pod: p.Name, UID: p.UID})
	if err != nil {
		n.t.Fatal(err)
	}
	return list.Items
}

// waitEvent waits until that happened to a pod.
func (n *node) waitEvent(p v1.Pod, reason string) v1.Event {
	n.t.Helper()
	var found v1.Event
	n.wait("event "+reason+" of pod "+p.Name, 10*time.Second, func() string {
		var others []string
		for _, e := range n.eventsOf(p) {
			if e.Reason == reason {
				found = e
				return ""
			}
			others = append(others, e.Reason)
		}
		return fmt.Sprintf("it: there are %v", others)
	})
	return found
}
