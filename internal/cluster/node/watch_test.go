package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// startWatching runs a reporter that watches its Node, and returns a record of its callbacks.
func startWatching(t *testing.T, c *cluster) (*bench, *lineRecorder) {
	calls := &lineRecorder{}
	b := startReadyWith(t, c, func(config *Config) {
		config.Watch = c.client.CoreV1()
		config.Changed = func() { calls.add("changed") }
		config.Registered = func(uid types.UID, again bool) { calls.add(fmt.Sprint("registered ", uid, " ", again)) }
	})
	if got := calls.take(); !slices.Equal(got, []string{"registered uid-1 false", "changed"}) {
		t.Fatalf("called back at start: %q", got)
	}
	return b, calls
}

func wantCalls(t *testing.T, calls *lineRecorder, when string, want ...string) {
	t.Helper()
	if got := calls.take(); !slices.Equal(got, want) {
		t.Errorf("%s: called back %q, want %q", when, got, want)
	}
}

func TestAWatchReportsADeletedNodeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, calls := startWatching(t, newCluster(t))
		after(time.Minute)
		b.removeNode()
		after(time.Second)
		if n := b.shown(); n.UID != "uid-2" || b.ready() != v1.ConditionTrue || b.Node().UID != "uid-2" {
			t.Errorf("node %+v", n)
		}
		if owner := b.lease().OwnerReferences[0]; owner.UID != "uid-2" {
			t.Errorf("the lease belongs to %v", owner)
		}
		wantCalls(t, calls, "when it was deleted", "registered uid-2 true", "changed")
		// And again, for the watch goes on.
		b.removeNode()
		after(time.Second)
		wantCalls(t, calls, "when it was deleted again", "registered uid-3 true", "changed")
	})
}

func TestAWatchReportsFieldsThatOthersRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, calls := startWatching(t, newCluster(t))
		after(time.Minute)
		version := 2000
		change := func(f func(*v1.Node)) {
			version++
			b.put(func(n *v1.Node) {
				n.ResourceVersion = fmt.Sprint(version)
				f(n)
			})
			after(time.Second)
		}
		change(func(n *v1.Node) { n.Annotations["note"] = "n" })
		wantCalls(t, calls, "a note")
		if b.Node().Annotations["note"] != "n" {
			t.Error("it was not seen")
		}
		before := b.Node()
		change(func(n *v1.Node) { n.Labels["disk"] = "ssd" })
		wantCalls(t, calls, "a label", "changed")
		if before.Labels["disk"] != "" || b.Node().Labels["disk"] != "ssd" {
			t.Error("what was handed out was written to, or is not replaced")
		}
		change(func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}} })
		wantCalls(t, calls, "a taint", "changed")
		change(func(n *v1.Node) { n.Spec.Unschedulable = true })
		wantCalls(t, calls, "it is cordoned")
		change(func(n *v1.Node) { n.Spec.Unschedulable = false })
		// A device: berth makes it allocatable.
		change(func(n *v1.Node) { n.Status.Capacity["example.com/dongle"] = n.Status.Capacity[v1.ResourceCPU] })
		wantCalls(t, calls, "a device", "changed")
		change(func(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "disk"}} })
		wantCalls(t, calls, "a volume", "changed")
		if events := b.events.take(); !slices.Equal(events, []string{"Normal NodeNotSchedulable", "Normal NodeSchedulable"}) {
			t.Errorf("events %q", events)
		}
	})
}

// Another client writes our conditions, as the controller of nodes does.
func TestAWatchReportsAnOverwrittenStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := startWatching(t, newCluster(t))
		after(time.Minute)
		b.put(func(n *v1.Node) {
			n.ResourceVersion = "2000"
			find(n.Status.Conditions, v1.NodeReady).Status = v1.ConditionUnknown
		})
		after(time.Second)
		if b.ready() != v1.ConditionTrue {
			t.Error("it is not ready")
		}
	})
}

func TestAWatchThatIsBrokenOffIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, calls := startWatching(t, newCluster(t))
		after(time.Minute)
		b.take()
		b.breakOff()
		synctest.Wait()
		b.expect("at once", "list nodes", "watch nodes")
		b.removeNode()
		after(time.Second)
		wantCalls(t, calls, "deleted", "registered uid-2 true", "changed")
		if lines := b.log.take(); len(lines) != 1 || !strings.Contains(lines[0], "registered") {
			t.Errorf("the log: %q", lines)
		}
	})
}

// No controller would notice for a while: the lease is there.
func TestWhatHappenedBetweenTwoWatchesIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.silent = true
		b, calls := startWatching(t, c)
		after(time.Minute)
		b.removeNode()
		after(time.Second)
		wantCalls(t, calls, "before the watch ends")
		b.breakOff()
		after(time.Second)
		wantCalls(t, calls, "after it", "registered uid-2 true", "changed")
	})
}

func TestAWatchThatEndsAtOnceIsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := startWatching(t, newCluster(t))
		after(time.Minute)
		b.take()
		for range 600 {
			b.breakOff()
			after(100 * time.Millisecond)
		}
		watches := 0
		for _, call := range b.take() {
			if call == "watch nodes" {
				watches++
			}
		}
		if watches < 10 || watches > 40 {
			t.Errorf("%d watches in a minute", watches)
		}
		if lines := b.log.take(); len(lines) > 1 {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
	})
}

func TestAWatchOutlivesAnOutage(t *testing.T) {
	for name, fault := range map[string]error{
		"refused":   errors.New("connection refused"),
		"too busy":  apierrors.NewTooManyRequests("later", 1),
		"forbidden": apierrors.NewForbidden(v1.Resource("nodes"), "box", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, calls := startWatching(t, newCluster(t))
				b.fails(fault)
				b.breakOff()
				after(5 * time.Minute)
				watching := func(line string) bool { return strings.Contains(line, "watch this node") }
				if lines := slices.DeleteFunc(b.log.take(), func(l string) bool { return !watching(l) }); len(lines) != 1 {
					t.Errorf("the log: %q", lines)
				}
				// Meanwhile it was deleted.
				b.removeNode()
				b.fails(nil)
				after(5 * time.Second)
				wantCalls(t, calls, "5 s after the server came back", "registered uid-2 true", "changed")
				if lines := slices.DeleteFunc(b.log.take(), func(l string) bool { return !watching(l) }); len(lines) != 1 {
					t.Errorf("the log at the end: %q", lines)
				}
			})
		})
	}
}

// The watch of before shows nothing of what a server with new data does.
func TestAServerThatLostItsDataIsWatchedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.silent = true
		b, calls := startWatching(t, c)
		after(time.Minute)
		b.take()
		b.silent = false
		b.removeNode()
		b.removeLease()
		after(11 * time.Second) // the lease is renewed
		wantCalls(t, calls, "when all was gone", "registered uid-2 true", "changed")
		if got := b.take(); !slices.Contains(got, "watch nodes") {
			t.Errorf("calls %q", got)
		}
		b.removeNode()
		after(time.Second)
		wantCalls(t, calls, "when it was deleted later", "registered uid-3 true", "changed")
	})
}

func TestAnExpiredWatchIsBegunAgain(t *testing.T) {
	r := &Reporter{config: Config{Settings: Settings{Name: "box"}}}
	gone := apierrors.NewResourceExpired("too old").Status()
	if err := r.handleEvent(watch.Event{Type: watch.Error, Object: &gone}); !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v", err)
	}
	if err := r.handleEvent(watch.Event{Type: watch.Added, Object: &v1.Pod{}}); err == nil {
		t.Error("a pod is no node")
	}
}

// Answers and what is watched come in any order.
func TestTheNewestWins(t *testing.T) {
	version := func(v string) *v1.Node {
		n := &v1.Node{}
		n.UID, n.ResourceVersion = "u1", v
		return n
	}
	one, two, three := version("1"), version("2"), version("3")
	r := &Reporter{known: make(chan struct{}), wakeNode: make(chan struct{}, 1)}
	r.setNode(one, nil)
	r.observeNode(three)
	r.setNode(two, one) // the answer to a patch, which was overtaken
	if r.Node() != three {
		t.Errorf("version %s", r.Node().ResourceVersion)
	}
	r.observeNode(two)
	if r.Node() != three {
		t.Errorf("version %s after an old one was seen", r.Node().ResourceVersion)
	}
	// A server that was restored from a backup goes back.
	r.setNode(one, three)
	if r.Node() != one {
		t.Errorf("version %s, of before the backup", r.Node().ResourceVersion)
	}
}
