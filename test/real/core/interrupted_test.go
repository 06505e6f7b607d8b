//go:build real

package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/ociarchive"
	"berth/test/real/kit"
)

// A user who changes their mind gets what they wanted last.

func TestPodRemovedBeforeItRuns(t *testing.T) {
	t.Parallel()
	// given a pod whose image is not there
	n := kit.NewNode(t)
	n.Start()
	p := kit.NewPod("later", "sleep")
	p.Spec.Containers[0].Image = "localhost/later:1"
	n.Apply("later.yaml", p)
	n.WaitPod("later", "waits for its image", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && strings.Contains(w.Reason, "Image"))
	})

	// when it is removed, then it goes, and does not come back with its image
	n.RemoveManifest("later.yaml")
	n.WaitGone("later")
	n.AddImage("later.tar", kit.WorkloadArchive(t, "localhost/later:1", ociarchive.Write))
	mustHaveNothing(n)

	// when pods are removed at any moment of their start
	var names []string
	for delay := time.Duration(0); delay <= 480*time.Millisecond; delay += 40 * time.Millisecond {
		name := fmt.Sprintf("brief-%03d", delay.Milliseconds())
		names = append(names, name)
		n.Apply(name+".yaml", kit.NewPod(name, "sleep"))
		<-time.After(delay)
		n.RemoveManifest(name + ".yaml")
	}

	// then they go, whatever they had come to
	n.Apply("last.yaml", kit.NewPod("last", "sleep"))
	n.WaitRunning("last")
	n.WaitGone(names...)
	n.WaitSettled("last")
	n.RemoveManifest("last.yaml")
	n.WaitGone("last")
	mustHaveNothing(n)
	for _, line := range kit.Lines(kit.Tail(n.LogFile(), 1<<20)) {
		if strings.Contains(line, "pod step failed") {
			t.Logf("on the way: %s", line)
		}
	}
}

func TestPodEditedWhileItStops(t *testing.T) {
	t.Parallel()
	// given a pod that takes a while to stop
	n := kit.NewNode(t)
	edition := func(word string) *v1.Pod {
		p := kit.NewPod("slow", "activity", word, "1500ms")
		p.Spec.TerminationGracePeriodSeconds = new(int64(20))
		return p
	}
	n.Apply("slow.yaml", edition("first"))
	n.Start()
	n.WaitRunning("slow")
	seen := n.Watch()
	// edit changes the file, and waits until the stop of the pod before has begun.
	edit := func(change func()) {
		t.Helper()
		old := len(seen.States("slow"))
		change()
		n.Wait("the stop to have begun", 10*time.Second, func() string {
			return kit.MissingUnless(slices.ContainsFunc(seen.States("slow")[old:], func(p v1.Pod) bool {
				return strings.Contains(p.Status.Message, "stopping containers")
			}))
		})
	}
	becomes := func(word string) v1.Pod {
		t.Helper()
		return n.WaitPod("slow", "runs as "+word, kit.StartTimeout, func(p v1.Pod) string {
			return kit.MissingUnless(kit.IsRunning(p) && p.Spec.Containers[0].Args[1] == word)
		})
	}

	// when it is edited, and edited again while the first still stops
	edit(func() { n.Apply("slow.yaml", edition("second")) })
	n.Apply("slow.yaml", edition("third"))

	// then the last one takes its place, and the one between never ran
	third := becomes("third")
	n.WaitSettled("slow")
	for _, p := range seen.States("slow") {
		if p.Spec.Containers[0].Args[1] == "second" && kit.AppStatus(p).State.Running != nil {
			t.Errorf("the second ran: %s", kit.Summary(p))
		}
	}

	// when it is removed, and brought back as it was while it stops
	edit(func() { n.RemoveManifest("slow.yaml") })
	n.Apply("slow.yaml", edition("third"))

	// then it runs once more, from the beginning, and that counts as a restart
	again := n.WaitPod("slow", "runs again", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && kit.ContainerIDs(p)["app"] != kit.ContainerIDs(third)["app"])
	})
	if again.UID != third.UID || kit.AppStatus(again).RestartCount != 1 {
		t.Errorf("it was %s, and is %s %s", third.UID, again.UID, kit.Summary(again))
	}
	n.WaitSettled("slow")

	// when it is edited and removed while it stops, then it goes
	edit(func() { n.Apply("slow.yaml", edition("fourth")) })
	n.RemoveManifest("slow.yaml")
	n.WaitGone("slow")
	mustHaveNothing(n)
	if left := n.Pods(); len(left) > 0 {
		t.Errorf("these are left: %v", left)
	}

	// when the agent is killed while it stops, then the next one sees to its end
	n.Apply("slow.yaml", edition("fifth"))
	fifth := n.OpenActivityLogs(becomes("fifth"))
	edit(func() { n.RemoveManifest("slow.yaml") })
	n.KillAgent()
	n.Start()
	n.WaitGone("slow")
	mustHaveNothing(n)
	fifth.WaitInOrder("fifth start", "fifth term", "fifth end")
}
