package agent_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
)

// mirrorOf returns the mirror pod of a static pod.
func mirrorOf(static *v1.Pod, uid pod.UID) *v1.Pod {
	m := static.DeepCopy()
	m.UID = uid
	m.Annotations = map[string]string{pod.AnnotationMirror: "hash"}
	return m
}

// expectMirrored fails the test if no mirror of a pod was requested since before.
func (n *node) expectMirrored(p *v1.Pod, before int) int {
	n.t.Helper()
	synctest.Wait()
	now := n.upstream.Mirrored(p.Name)
	if now <= before {
		n.t.Errorf("nobody asked for the mirror of %s", p.Name)
	}
	return now
}

// A static pod can be seen whatever becomes of it here.
func TestEveryStaticPodHasAMirror(t *testing.T) {
	for _, c := range []struct {
		name  string
		given func(n *node, static *v1.Pod)
		phase v1.PodPhase
		shows v1.PodPhase // empty: the API server says that it is pending
	}{
		{"it runs", func(n *node, static *v1.Pod) { n.wants(static) }, v1.PodRunning, v1.PodRunning},
		{"it has ended", func(n *node, static *v1.Pod) {
			static.Spec.RestartPolicy = v1.RestartPolicyNever
			n.wants(static)
			must(n.t, n.runtime.Exit(static.UID, "app", 0))
		}, v1.PodSucceeded, v1.PodSucceeded},
		{"it was rejected", func(n *node, static *v1.Pod) {
			n.hasProcessors("1")
			n.wants(asking(static, "2"))
		}, v1.PodFailed, v1.PodFailed},
		{"it is held back", func(n *node, static *v1.Pod) {
			n.drained(n.drains())
			n.wants(static)
		}, v1.PodPending, v1.PodPending},
		{"it was ended by a drain", func(n *node, static *v1.Pod) {
			n.wants(static)
			n.drained(n.drains())
		}, v1.PodFailed, v1.PodFailed},
		{"it waits for room", func(n *node, static *v1.Pod) {
			n.hasProcessors("1")
			n.binds(n.stopping(asking(bound("lowly"), "1"), 20*time.Second))
			n.wants(asking(static, "1"))
		}, v1.PodPending, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := startNode(t, fake.New(testImage), t.TempDir())
				defer n.stop()
				static := webPod("static")
				c.given(n, static)
				n.expectPhase("static", c.phase)
				asked := n.expectMirrored(static, 0)

				// when the mirror comes, it shows how the pod is
				first := mirrorOf(static, "first")
				n.binds(first)
				if s := n.upstream.Published(static.Name); s.Phase != c.shows {
					t.Errorf("it shows %q", s.Phase)
				}
				// when it is changed by hand, or deleted, it is to be made again
				changed := first.DeepCopy()
				changed.Labels = map[string]string{"changed": "by hand"}
				n.binds(changed)
				asked = n.expectMirrored(static, asked)
				n.binds()
				asked = n.expectMirrored(static, asked)
				// when the node was registered anew
				n.agent.Remirror(t.Context())
				n.expectMirrored(static, asked)
			})
		})
	}
}

// The end of a pod is known to the next agent, too.
func TestAStaticPodThatEndedBeforeTheAgentCameHasAMirror(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, r := t.TempDir(), fake.New(testImage)
		job := webPod("job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		n := startNode(t, r, dir)
		n.wants(job)
		must(t, r.Exit("job", "app", 0))
		n.expectPhase("job", v1.PodSucceeded)
		n.stop()

		n = startNode(t, r, dir)
		defer n.stop()
		n.wants(job)
		asked := n.expectMirrored(job, 0)
		n.binds(mirrorOf(job, "mirror"))
		if s := n.upstream.Published(job.Name); s.Phase != v1.PodSucceeded {
			t.Errorf("its mirror shows %q", s.Phase)
		}
		n.binds()
		n.expectMirrored(job, asked)
	})
}

// The deletion of a mirror may cause no event: it was deleted before the watch saw it.
func TestMirrorsAreAskedForFromTimeToTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		static := webPod("static")
		n.wants(static)
		asked := n.expectMirrored(static, 0)
		time.Sleep(2 * time.Minute)
		n.expectMirrored(static, asked)
	})
}

func TestTheMirrorOfAPodThatGoesIsNotMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		static := n.stopping(webPod("static"), 20*time.Second)
		n.wants(static)
		n.binds(mirrorOf(static, "mirror"))
		n.wants() // its manifest is gone, and it is being stopped
		asked := n.expectMirrored(static, 0)
		n.binds() // a user deletes the mirror
		n.agent.Remirror(t.Context())
		time.Sleep(time.Hour)
		synctest.Wait()
		if now := n.upstream.Mirrored(static.Name); now != asked {
			t.Errorf("its mirror was asked for %d times more", now-asked)
		}
	})
}

// A mirror is that of the pod which runs, or is being stopped, and not of the next one.
func TestTheMirrorOfAnEditedPodComesOnceTheOneBeforeItIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		old, edited := n.stopping(webPod("old"), 20*time.Second), webPod("new")
		edited.Name = old.Name
		n.wants(old)
		mirror := mirrorOf(old, "mirror")
		n.binds(mirror)
		asked := n.expectMirrored(old, 0)
		n.wants(edited)
		n.binds(mirror, bound("other"))
		n.binds(mirror) // a pod that goes meanwhile is another one
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if now := n.upstream.Mirrored(old.Name); now != asked || len(n.upstream.Unmirrored()) != 0 {
			t.Fatalf("while it is being stopped, its mirror was asked for %d times, and to go: %v", now-asked, n.upstream.Unmirrored())
		}
		time.Sleep(2 * time.Second)
		n.expectMirrored(edited, asked)
	})
}

// The mirror of a pod that was removed and added again is made anew, though it looks the same.
func TestAPodThatIsAddedAgainHasANewMirror(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		static := n.stopping(webPod("static"), 20*time.Second)
		n.wants(static)
		mirror := mirrorOf(static, "mirror")
		n.binds(mirror)

		// when its file is removed and written again
		n.wants()
		n.wants(static)
		asked := n.expectMirrored(static, 0)
		if got := n.upstream.Unmirrored(); len(got) != 0 {
			t.Fatalf("while it is being stopped, its mirror is to go: %v", got)
		}

		// then it is started anew once nothing is left of it, and its mirror goes
		time.Sleep(21 * time.Second)
		n.expectPhase("static", v1.PodRunning)
		if c := n.app("static"); c.RestartCount != 1 {
			t.Errorf("it is %+v", c)
		}
		if got := n.upstream.Unmirrored(); !slices.Equal(got, []string{mirror.Name}) {
			t.Fatalf("unmirrored: %v", got)
		}
		n.binds()
		n.expectMirrored(static, asked)
	})
}

func TestTheMirrorOfAPodThatGoesStaysUntilItIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		static := n.stopping(webPod("static"), 150*time.Second)
		static.Spec.TerminationGracePeriodSeconds = new(int64(200))
		mirror := mirrorOf(static, "mirror")
		n.wants(static)
		n.binds(mirror, bound("other"))
		n.wants()
		n.binds(mirror) // another one goes, and what is left is looked for
		time.Sleep(149 * time.Second)
		synctest.Wait()
		if got := n.upstream.Unmirrored(); len(got) != 0 {
			t.Errorf("it was to go while the pod ran: %v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := n.upstream.Unmirrored(); !slices.Contains(got, mirror.Name) {
			t.Errorf("unmirrored %v", got)
		}
	})
}

// What the API server has bound to the node is there already.
func TestOnlyStaticPodsHaveMirrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startNode(t, fake.New(testImage), t.TempDir())
		defer n.stop()
		n.wants()
		p := bound("a")
		n.binds(p, mirrorOf(webPod("lost"), "mirror"))
		n.agent.Remirror(t.Context())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n.upstream.Mirrored(p.Name)+n.upstream.Mirrored("web-lost") != 0 {
			t.Error("a mirror was asked for")
		}
		if got := n.upstream.Unmirrored(); !slices.Contains(got, "web-lost") {
			t.Errorf("unmirrored %v", got)
		}
	})
}
