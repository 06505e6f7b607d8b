//go:build real

package real

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/ociarchive"
)

// Somebody who changes their mind gets what they wanted last.

func TestPodRemovedBeforeItRuns(t *testing.T) {
	t.Parallel()
	// given a pod whose image is not there
	n := newNode(t)
	n.start()
	p := newPod("later", "sleep")
	p.Spec.Containers[0].Image = "localhost/later:1"
	n.apply("later.yaml", p)
	n.waitPod("later", "waits for its image", startLimit, func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(w != nil && strings.Contains(w.Reason, "Image"))
	})

	// when it is removed, then it goes, and does not come back with its image
	n.remove("later.yaml")
	n.waitGone("later")
	n.drop("later.tar", archive(t, "localhost/later:1", ociarchive.Write))
	n.mustHaveNothing()

	// when pods are removed at any moment of their start
	var names []string
	for delay := time.Duration(0); delay <= 480*time.Millisecond; delay += 40 * time.Millisecond {
		name := fmt.Sprintf("brief-%03d", delay.Milliseconds())
		names = append(names, name)
		n.apply(name+".yaml", newPod(name, "sleep"))
		<-time.After(delay)
		n.remove(name + ".yaml")
	}

	// then they go, whatever they had come to
	n.apply("last.yaml", newPod("last", "sleep"))
	n.waitRunning("last")
	n.waitGone(names...)
	n.waitSettled("last")
	n.remove("last.yaml")
	n.waitGone("last")
	n.mustHaveNothing()
	for _, line := range lines(tail(n.logFile(), 1<<20)) {
		if strings.Contains(line, "pod step failed") {
			t.Logf("on the way: %s", line)
		}
	}
}

func TestPodEditedWhileItStops(t *testing.T) {
	t.Parallel()
	// given a pod that takes a while to stop
	n := newNode(t)
	edition := func(word string) *v1.Pod {
		p := newPod("slow", "diary", word, "1500ms")
		p.Spec.TerminationGracePeriodSeconds = new(int64(20))
		return p
	}
	n.apply("slow.yaml", edition("first"))
	n.start()
	n.waitRunning("slow")
	seen := n.watch()
	// edit changes the file, and waits until the stop of the pod before has begun.
	edit := func(change func()) {
		t.Helper()
		old := len(seen.states("slow"))
		change()
		n.wait("the stop to have begun", 10*time.Second, func() string {
			return boolText(slices.ContainsFunc(seen.states("slow")[old:], func(p v1.Pod) bool {
				return strings.Contains(p.Status.Message, "stopping containers")
			}))
		})
	}
	becomes := func(word string) v1.Pod {
		t.Helper()
		return n.waitPod("slow", "runs as "+word, startLimit, func(p v1.Pod) string {
			return boolText(isRunning(p) && p.Spec.Containers[0].Args[1] == word)
		})
	}

	// when it is edited, and edited again while the first still stops
	edit(func() { n.apply("slow.yaml", edition("second")) })
	n.apply("slow.yaml", edition("third"))

	// then the last one takes its place, and the one between never ran
	third := becomes("third")
	n.waitSettled("slow")
	for _, p := range seen.states("slow") {
		if p.Spec.Containers[0].Args[1] == "second" && app(p).State.Running != nil {
			t.Errorf("the second ran: %s", summary(p))
		}
	}

	// when it is removed, and brought back as it was while it stops
	edit(func() { n.remove("slow.yaml") })
	n.apply("slow.yaml", edition("third"))

	// then it runs once more, from the beginning
	again := n.waitPod("slow", "runs again", startLimit, func(p v1.Pod) string {
		return boolText(isRunning(p) && ids(p)["app"] != ids(third)["app"])
	})
	if again.UID != third.UID || app(again).RestartCount != 0 {
		t.Errorf("it was %s, and is %s %s", third.UID, again.UID, summary(again))
	}
	n.waitSettled("slow")

	// when it is edited and removed while it stops, then it goes
	edit(func() { n.apply("slow.yaml", edition("fourth")) })
	n.remove("slow.yaml")
	n.waitGone("slow")
	n.mustHaveNothing()
	if left := n.pods(); len(left) > 0 {
		t.Errorf("these are left: %v", left)
	}

	// when the agent is killed while it stops, then the next one sees to its end
	n.apply("slow.yaml", edition("fifth"))
	fifth := n.openDiaries(becomes("fifth"))
	edit(func() { n.remove("slow.yaml") })
	n.crash()
	n.start()
	n.waitGone("slow")
	n.mustHaveNothing()
	fifth.until("fifth start", "fifth term", "fifth end")
}
