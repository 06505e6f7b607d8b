package agent_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// unread is the refusal of a pod that this version of berth can't read.
func unread(p *v1.Pod) pod.Refusal {
	return pod.Refusal{Source: pod.SourceFile, Origin: "/m/a.yaml", Pod: pod.Ref(p), UID: p.UID, Message: "unknown field", Kept: true}
}

// wantsBeside replaces the pods and the refusals of the folder.
func (n *node) wantsBeside(refused []pod.Refusal, pods ...*v1.Pod) {
	n.t.Helper()
	n.snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Set, Pods: pods, Refused: refused}
	synctest.Wait()
}

// upgraded is a node whose agent was replaced by one that can't read pod "a", which runs, nor
// "lost", of which nothing runs.
func upgraded(t *testing.T, r *fake.Runtime) *node {
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.wants(webPod("a"), webPod("b"))
	n.expectPhase("a", v1.PodRunning)
	n.stop()
	n = startNode(t, r, dir)
	refused := []pod.Refusal{unread(webPod("a")), unread(webPod("lost"))}
	n.snapshots <- pod.Snapshot{Source: pod.SourceFile, Op: pod.Restore, Pods: []*v1.Pod{webPod("b")}, Refused: refused}
	n.wantsBeside(refused, webPod("b"))
	return n
}

func TestAPodThatThisVersionCanNotReadGoesOnUntouched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		n := upgraded(t, r)
		defer n.stop()

		// then it goes on, and is shown as what it is
		time.Sleep(time.Hour)
		n.expectPhase("a", v1.PodRunning)
		if s := n.pod("a").Status; s.Reason != "ManifestUnreadable" || s.Message != "unknown field" {
			t.Errorf("got %q: %q", s.Reason, s.Message)
		}
		if c := n.app("a"); c.State.Running == nil {
			t.Errorf("got %+v", c)
		}
		n.expectPhase("lost", v1.PodPending)
		events := 0
		for _, e := range n.events.All() {
			if strings.HasPrefix(e, "ManifestUnreadable") {
				events++
			}
		}
		if events != 2 {
			t.Errorf("%d events: %q", events, n.events.All())
		}

		// and if it ends, that is shown, too, and it is not started again
		must(t, r.Exit("a", "app", 3))
		synctest.Wait()
		time.Sleep(time.Hour)
		if c := n.app("a"); c.State.Terminated == nil || c.State.Terminated.ExitCode != 3 {
			t.Errorf("got %+v", c)
		}
		if stopped, made := r.Calls("StopContainer"), r.Calls("CreateContainer"); stopped != 0 || made != 2 {
			t.Errorf("%d containers were stopped, %d made", stopped, made)
		}
	})
}

func TestAnUnreadablePodEndsWithItsFile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		n := upgraded(t, r)
		defer n.stop()
		n.wants(webPod("b"))
		time.Sleep(time.Minute)
		all, err := r.List(t.Context())
		must(t, err)
		if len(all) != 1 || all["b"] == nil {
			t.Errorf("want only b, got %v", all)
		}
		if pods, _ := n.agent.List(); len(pods) != 1 {
			t.Errorf("there are %d pods", len(pods))
		}
	})
}

func TestAnEditedPodWaitsForTheEndOfTheUnreadableOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		n := upgraded(t, r)
		defer n.stop()
		r.Delay("StopContainer", 5*time.Second)
		edited := webPod("edited")
		edited.Name = webPod("a").Name
		// Something else is removed at the same time.
		n.wants(edited)
		n.expectPhase("edited", v1.PodPending)
		if made := r.Calls("RunSandbox"); made != 2 {
			t.Errorf("it began beside the other: %d sandboxes", made)
		}
		time.Sleep(time.Minute)
		n.expectPhase("edited", v1.PodRunning)
		for _, stop := range r.Stops() {
			if stop.Grace < 25*time.Second {
				t.Errorf("a container had %s to stop", stop.Grace)
			}
		}
	})
}

func TestAPodThatCanBeReadAgainIsTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := fake.New(testImage)
		n := upgraded(t, r)
		defer n.stop()
		n.wants(webPod("a"), webPod("b"))
		time.Sleep(time.Hour)
		n.expectPhase("a", v1.PodRunning)
		if s := n.pod("a").Status; s.Reason != "" {
			t.Errorf("got %+v", s)
		}
		if stopped, made := r.Calls("StopContainer"), r.Calls("CreateContainer"); stopped != 0 || made != 2 {
			t.Errorf("%d containers were stopped, %d made", stopped, made)
		}
	})
}

func TestTheRefusalOfAPodThatGoesOnIsAnEvent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		refused := unread(webPod("a"))
		refused.UID = ""
		n.wants(webPod("a"))
		n.wantsBeside([]pod.Refusal{refused}, webPod("a"))
		n.wantsBeside([]pod.Refusal{refused}, webPod("a"), webPod("b"))
		events := 0
		for _, e := range n.events.All() {
			if strings.HasPrefix(e, "ManifestRefused") {
				events++
			}
		}
		if events != 1 {
			t.Errorf("%d events: %q", events, n.events.All())
		}
	})
}

// A mirror stays for as long as anything is left of its pod.
func TestTheMirrorOfAnUnreadablePodStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := upgraded(t, fake.New(testImage))
		defer n.stop()
		mirror, lost := mirrorOf(webPod("a"), "mirror"), mirrorOf(webPod("lost"), "lost-mirror")
		n.binds(mirror, lost)
		n.binds(mirror, lost, bound("other"))
		n.agent.Remirror(t.Context())
		synctest.Wait()
		if gone := n.upstream.Unmirrored(); len(gone) > 0 {
			t.Fatalf("mirrors were asked to go: %v", gone)
		}

		// when their files go, then the mirrors go, too, also that of a pod of which there was nothing
		n.wants(webPod("b"))
		time.Sleep(time.Minute)
		gone := n.upstream.Unmirrored()
		if !slices.Contains(gone, "web-a") || !slices.Contains(gone, "web-lost") {
			t.Errorf("only these mirrors were asked to go: %v", gone)
		}
	})
}
