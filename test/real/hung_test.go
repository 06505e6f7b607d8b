//go:build real

package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// atOnce is enough for a pod that waits for nobody, on a busy machine. It is less than
// what a file system that hangs is waited for.
const atOnce = 10 * time.Second

func TestAHungFileSystemHoldsUpItsPodOnly(t *testing.T) {
	t.Parallel()
	// given a file system that never answers
	n := newNode(t)
	given := filepath.Join(n.dir, "given")
	dead := filepath.Join(given, "dead")
	n.mustMake(dead)
	wake := n.mountDead(dead)
	// and pods that want something of it, each in its own way, more than there are slots
	stuck := map[string]struct {
		path string
		kind v1.HostPathType
		sub  string
	}{
		"any":    {path: dead + "/x"},
		"root":   {path: dead},
		"typed":  {path: dead + "/x", kind: v1.HostPathDirectory},
		"part":   {path: given, sub: "dead/x"},
		"part-2": {path: given, sub: "dead/x"},
	}
	names := []string{}
	for name, s := range stuck {
		p := open(name)
		mount(p, "/vol", hostPath(s.path, s.kind))
		p.Spec.Containers[0].VolumeMounts[0].SubPath = s.sub
		n.apply(name+".yaml", p)
		names = append(names, name)
	}
	n.start()
	n.wait("the pods that hang", startLimit, func() string { return boolText(len(n.pods()) == len(stuck)) })

	// then others start as ever
	start := func(name string) {
		n.apply(name+".yaml", open(name))
		n.waitPod(name, "to run while others hang", atOnce, func(p v1.Pod) string { return boolText(isRunning(p)) })
	}
	start("web")
	// and it is seen what hangs, and since when
	for name, s := range stuck {
		n.waitMessage(name, "look at "+filepath.Join(s.path, s.sub)+": not done since 20")
	}
	start("more")
	if out := n.must("get", "pods", "-o", "wide"); strings.Count(out, "not done since") != len(stuck) {
		t.Errorf("it is not shown:\n%s", out)
	}

	// when one is removed, then it is seen why it does not go
	n.remove("any.yaml")
	gone := n.waitPod("any", "to say why it stays", startLimit, func(p v1.Pod) string {
		return boolText(strings.Contains(p.Status.Message, "unmounting volumes: ") && strings.Contains(p.Status.Message, "look at "+dead+"/x: not done since 20"))
	})
	for _, e := range n.eventsOf(gone) {
		if strings.Contains(e.Message, "canceled") {
			t.Errorf("it is told that nobody waits any more: %s", e.Message)
		}
	}

	// when it answers at last, with an error, then that is said, and all can go
	wake()
	n.waitMessage("typed", "hostPath type check failed")
	n.waitMessage("root", "hostPath: stat "+dead)
	for _, name := range names {
		if name != "any" {
			n.remove(name + ".yaml")
		}
	}
	n.waitGone(names...)
}

func TestAMountThatIsInUseIsShown(t *testing.T) {
	t.Parallel()
	// given a pod with a volume in memory that somebody else uses
	n := newNode(t)
	web := open("web")
	mount(web, "/vol", scratch(v1.StorageMediumMemory, ""))
	n.apply("web.yaml", web)
	n.start()
	p := n.waitRunning("web")["web"]
	at := n.volumeOf(p, "kubernetes.io~empty-dir", "vol")
	user, err := os.Create(filepath.Join(at, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()

	// when it is removed, then it is seen which mount does not go, why, and since when
	n.remove("web.yaml")
	says := "unmount " + at + " (tmpfs), since 20"
	n.waitPod("web", "to say what holds it up", startLimit, func(p v1.Pod) string {
		return boolText(strings.HasPrefix(p.Status.Message, "Terminating since ") && strings.Contains(p.Status.Message, ": unmounting volumes: "+says) &&
			strings.HasSuffix(p.Status.Message, ": it is in use"))
	})
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"get", "pods", "-o", "wide"}, ": it is in use"}, // of a long message, both ends
		{[]string{"describe", "pod", p.Name}, says},
	} {
		if out := n.must(c.args...); !strings.Contains(out, c.says) {
			t.Errorf("%v does not show it:\n%s", c.args, out)
		}
	}
	// in one event, however often it is tried
	n.wait("the event to be counted", startLimit, func() string {
		e := n.waitEvent(p, "FailedUnmount")
		return boolText(e.Count > 1 && strings.Contains(e.Message, says))
	})

	user.Close()
	n.waitGone("web")
}

func TestAnEditedVolumeIsAnotherOne(t *testing.T) {
	t.Parallel()
	// given a pod whose UID stays, with volumes of some kinds
	n := newNode(t)
	first, second := filepath.Join(n.dir, "first"), filepath.Join(n.dir, "second")
	n.mustMake(first, "name")
	n.mustMake(second, "name")
	if err := os.WriteFile(filepath.Join(second, "name"), []byte("second"), 0o644); err != nil {
		t.Fatal(err)
	}
	edition := func(word string, host string, medium v1.StorageMedium) *v1.Pod {
		p := open("web")
		p.UID = "11111111-2222-3333-4444-666666666666"
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "EDITION", Value: word}}
		mount(p, "/host", hostPath(host, ""))
		mount(p, "/part", hostPath(filepath.Dir(host), ""))
		p.Spec.Containers[0].VolumeMounts[1].SubPath = filepath.Base(host)
		mount(p, "/own", scratch(medium, ""))
		return p
	}
	n.apply("web.yaml", edition("one", first, v1.StorageMediumMemory))
	n.start()
	before := n.waitRunning("web")["web"]
	for _, path := range []string{"/host/name", "/part/name"} {
		if got := n.contentOf(before, path); got != "name" {
			t.Errorf("%s holds %q at first", path, got)
		}
	}

	// when the container is edited, and what its volumes are made of
	n.apply("web.yaml", edition("two", second, ""))

	// then the next one has the new volumes, and nothing is left of the old ones
	after := n.waitPod("web", "to have another container", startLimit, func(p v1.Pod) string {
		return boolText(isRunning(p) && ids(p)["app"] != ids(before)["app"])
	})
	if after.UID != before.UID {
		t.Fatalf("it was %s and is %s", before.UID, after.UID)
	}
	for _, path := range []string{"/host/name", "/part/name"} {
		if got := n.contentOf(after, path); got != "second" {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if line := n.mountedIn(after, "/own"); strings.Contains(line, " tmpfs ") {
		t.Error(line)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), n.volumeOf(after, "kubernetes.io~empty-dir")) {
		t.Errorf("the volume in memory is still there: %v", err)
	}
	n.remove("web.yaml")
	n.waitGone("web")
}
