//go:build real

package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/fixture"
	"berth/test/real/kit"
)

// promptTimeout is enough for a pod that waits for nothing, on a busy machine. It is less than the
// timeout of a hung file system.
const promptTimeout = 10 * time.Second

func TestAHungFileSystemHoldsUpItsPodOnly(t *testing.T) {
	t.Parallel()
	// given a file system that never answers
	n := kit.NewNode(t)
	given := filepath.Join(n.Dir, "given")
	dead := filepath.Join(given, "dead")
	mustMake(n, dead)
	_, wake := fixture.MountHung(t, dead)
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
		p := kit.ReadablePod(name)
		kit.AddVolume(p, "/vol", hostPath(s.path, s.kind))
		p.Spec.Containers[0].VolumeMounts[0].SubPath = s.sub
		n.Apply(name+".yaml", p)
		names = append(names, name)
	}
	n.Start()
	n.Wait("the pods that hang", kit.StartTimeout, func() string { return kit.MissingUnless(len(n.Pods()) == len(stuck)) })

	// then others start as ever
	start := func(name string) {
		n.Apply(name+".yaml", kit.ReadablePod(name))
		n.WaitPod(name, "to run while others hang", promptTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.IsRunning(p)) })
	}
	start("web")
	// and it is seen what hangs, and since when
	for name, s := range stuck {
		waitMessage(n, name, "look at "+filepath.Join(s.path, s.sub)+": not done since 20")
	}
	start("more")
	if out := n.MustBerth("get", "pods", "-o", "wide"); strings.Count(out, "not done since") != len(stuck) {
		t.Errorf("it is not shown:\n%s", out)
	}

	// when one is removed, then it is seen why it does not go
	n.RemoveManifest("any.yaml")
	gone := n.WaitPod("any", "to say why it stays", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(strings.Contains(p.Status.Message, "unmounting volumes: ") && strings.Contains(p.Status.Message, "look at "+dead+"/x: not done since 20"))
	})
	for _, e := range n.Events(gone) {
		if strings.Contains(e.Message, "canceled") {
			t.Errorf("it is reported that there is no waiting pod: %s", e.Message)
		}
	}

	// when it answers at last, with an error, then that is said, and all can go
	wake()
	waitMessage(n, "typed", "hostPath type check failed")
	waitMessage(n, "root", "hostPath: stat "+dead)
	for _, name := range names {
		if name != "any" {
			n.RemoveManifest(name + ".yaml")
		}
	}
	n.WaitGone(names...)
}

func TestAMountThatIsInUseIsShown(t *testing.T) {
	t.Parallel()
	// given a pod with a volume in memory that another process uses
	n := kit.NewNode(t)
	web := kit.ReadablePod("web")
	kit.AddVolume(web, "/vol", scratch(v1.StorageMediumMemory, ""))
	n.Apply("web.yaml", web)
	n.Start()
	p := n.WaitRunning("web")["web"]
	at := volumeOf(n, p, "kubernetes.io~empty-dir", "vol")
	user, err := os.Create(filepath.Join(at, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()

	// when it is removed, then it is seen which mount does not go, why, and since when
	n.RemoveManifest("web.yaml")
	says := "unmount " + at + " (tmpfs), since 20"
	n.WaitPod("web", "to say what holds it up", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(strings.HasPrefix(p.Status.Message, "Terminating since ") && strings.Contains(p.Status.Message, ": unmounting volumes: "+says) &&
			strings.HasSuffix(p.Status.Message, ": it is in use"))
	})
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"get", "pods", "-o", "wide"}, ": it is in use"}, // of a long message, both ends
		{[]string{"describe", "pod", p.Name}, says},
	} {
		if out := n.MustBerth(c.args...); !strings.Contains(out, c.says) {
			t.Errorf("%v does not show it:\n%s", c.args, out)
		}
	}
	// in one event, however often it is tried
	n.Wait("the event to be counted", kit.StartTimeout, func() string {
		e := n.WaitEvent(p, "FailedUnmount")
		return kit.MissingUnless(e.Count > 1 && strings.Contains(e.Message, says))
	})

	user.Close()
	n.WaitGone("web")
}

func TestAnEditedVolumeIsAnotherOne(t *testing.T) {
	t.Parallel()
	// given a pod whose UID stays, with volumes of some kinds
	n := kit.NewNode(t)
	first, second := filepath.Join(n.Dir, "first"), filepath.Join(n.Dir, "second")
	mustMake(n, first, "name")
	mustMake(n, second, "name")
	if err := os.WriteFile(filepath.Join(second, "name"), []byte("second"), 0o644); err != nil {
		t.Fatal(err)
	}
	edition := func(word string, host string, medium v1.StorageMedium) *v1.Pod {
		p := kit.ReadablePod("web")
		p.UID = "11111111-2222-3333-4444-666666666666"
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "EDITION", Value: word}}
		kit.AddVolume(p, "/host", hostPath(host, ""))
		kit.AddVolume(p, "/part", hostPath(filepath.Dir(host), ""))
		p.Spec.Containers[0].VolumeMounts[1].SubPath = filepath.Base(host)
		kit.AddVolume(p, "/own", scratch(medium, ""))
		return p
	}
	n.Apply("web.yaml", edition("one", first, v1.StorageMediumMemory))
	n.Start()
	before := n.WaitRunning("web")["web"]
	for _, path := range []string{"/host/name", "/part/name"} {
		if got := n.ReadFile(before, path); got != "name" {
			t.Errorf("%s holds %q at first", path, got)
		}
	}

	// when the container is edited, and what its volumes are made of
	n.Apply("web.yaml", edition("two", second, ""))

	// then the next one has the new volumes, and nothing is left of the old ones
	after := n.WaitPod("web", "to have another container", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && kit.ContainerIDs(p)["app"] != kit.ContainerIDs(before)["app"])
	})
	if after.UID != before.UID {
		t.Fatalf("it was %s and is %s", before.UID, after.UID)
	}
	for _, path := range []string{"/host/name", "/part/name"} {
		if got := n.ReadFile(after, path); got != "second" {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if line := mountedIn(n, after, "/own"); strings.Contains(line, " tmpfs ") {
		t.Error(line)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), volumeOf(n, after, "kubernetes.io~empty-dir")) {
		t.Errorf("the volume in memory is still there: %v", err)
	}
	n.RemoveManifest("web.yaml")
	n.WaitGone("web")
}
