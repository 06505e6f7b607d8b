//go:build real && machine

package pods

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"berth/test/real/kit"
)

// It runs alone: for a moment the machine enforces its policy.
func TestSELinuxMount(t *testing.T) {
	// given a node of a cluster whose runtime labels containers, and a CSI driver that is not said to mount with labels
	nameLabels(t)
	n := newMember(kit.NewNode(t))
	driver := newDriver(n.Node, testDriver, "-disks")
	n.start()
	n.describeDriver(storagev1.CSIDriverSpec{AttachRequired: new(false), PodInfoOnMount: new(true), SELinuxMount: new(false)})

	// when a pod has a label, then its volume is mounted without options, and the runtime labels the files
	n.createPods(withLevel("plain", "s0:c1,c2", n.claimDisk("plain", "plain", v1.ReadWriteOncePod)))
	plain := n.WaitRunning("plain")["plain"]
	driver.mustHaveMounted("plain", "plain", "")
	mustHaveLabel(t, diskOf(n.Node, plain, "plain"), "s0:c1,c2")

	// when the driver mounts with labels, then a volume for one pod is mounted with that of its pod; any other one is not
	n.patchDriver(`{"spec":{"seLinuxMount":true}}`)
	one := withLevel("one", "s0:c1,c2", n.claimDisk("one", "disk", v1.ReadWriteOncePod))
	kit.AddVolume(one, "/shared", n.claimDisk("shared", "shared", v1.ReadWriteOnce))
	n.createPods(one)
	first := n.WaitRunning("one")["one"]
	driver.mustHaveMounted("disk", "one", "s0:c1,c2")
	driver.mustHaveMounted("shared", "one", "")
	if !canWrite(n.Node, first, "/vol/made") {
		t.Error("its volume can't be written to")
	}
	for _, path := range []string{diskOf(n.Node, first, "one"), diskOf(n.Node, first, "one", "made"), diskOf(n.Node, first, "shared")} {
		mustHaveLabel(t, path, "s0:c1,c2")
	}

	// when the same disk is the volume of a pod with another label, then that pod waits
	n.createPods(withLevel("two", "s0:c3,c4", n.claimDisk("two", "disk", v1.ReadWriteOncePod)))
	waits := fmt.Sprintf("waiting for another pod to release the volume: it is mounted with SELinux label %q, and this pod needs %q",
		fileLabel+fileType+":s0:c1,c2", fileLabel+fileType+":s0:c3,c4")
	waitMessage(n.Node, "two", waits)
	n.Wait("an event of pod two", kit.StartTimeout, func() string {
		return kit.MissingUnless(slices.ContainsFunc(n.Events(n.Pod("two")), func(e v1.Event) bool {
			return e.Reason == "FailedMount" && strings.Contains(e.Message, waits)
		}))
	})

	// and once the other one is gone, it has the disk with its own label
	n.deletePod("one")
	second := n.WaitRunning("two")["two"]
	driver.mustHaveMounted("disk", "two", "s0:c3,c4")
	mustHaveLabel(t, diskOf(n.Node, second, "two", "made"), "s0:c3,c4")

	// when the policy is enforced, then pods can use their volumes
	whileEnforced(t, func() {
		for _, p := range []v1.Pod{plain, second} {
			if !canWrite(n.Node, p, "/vol/enforced") {
				t.Errorf("%s can't write to its volume", p.Name)
			}
		}
	})

	// when the disk is not mounted any more, then its files have no label of a pod: nothing has labelled them
	n.deletePod("two")
	n.WaitGone("two")
	kit.MustRun(t, "mount", "-o", "loop,ro", driver.disk("disk"), "/mnt")
	defer kit.MustRun(t, "umount", "/mnt")
	for _, path := range []string{"/mnt", "/mnt/made", "/mnt/enforced"} {
		if got := labelOf(t, path); strings.Contains(got, fileType) {
			t.Errorf("%s was given the label %s", path, got)
		}
	}
}

// whileEnforced calls do while the policy is enforced.
func whileEnforced(t *testing.T, do func()) {
	t.Helper()
	kit.MustRun(t, "setenforce", "1")
	defer kit.MustRun(t, "setenforce", "0")
	do()
}

// withLevel is a pod with a SELinux level, and a volume at /vol.
func withLevel(name, level string, volume v1.VolumeSource) *v1.Pod {
	p := kit.ReadablePod(name)
	p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: level}}
	kit.AddVolume(p, "/vol", volume)
	answerWhileEnforced(p)
	return p
}

// diskOf is a file of a disk of the driver of the tests, as it is published for a pod.
func diskOf(n *kit.Node, p v1.Pod, disk string, file ...string) string {
	return volumeOf(n, p, append([]string{"kubernetes.io~csi", disk, "mount"}, file...)...)
}

// disk is the file behind a volume of a driver with disks.
func (d *csiDriver) disk(volume string) string {
	return filepath.Join(d.dir, "volumes", volume+".ext4")
}

// mustHaveMounted fails the test unless the driver was last asked to stage a disk, and to publish it for a pod, with the label of that
// level, or without one if the level is empty.
func (d *csiDriver) mustHaveMounted(disk, pod, level string) {
	d.n.T.Helper()
	options := ""
	if level != "" {
		options = fmt.Sprintf(" with context=%q", fileLabel+fileType+":"+level)
	}
	calls := kit.Filter(d.calls(), func(call string) bool { return strings.Fields(call)[1] == disk })
	want := []string{"stage " + disk + options, "publish " + disk + " for " + pod + options}
	if len(calls) < len(want) || !slices.Equal(calls[len(calls)-len(want):], want) {
		d.n.T.Errorf("the driver was asked for %q, want %q at the end", calls, want)
	}
}

// mustHaveLabel fails the test unless a file has the label of files of pods with that level.
func mustHaveLabel(t *testing.T, path, level string) {
	t.Helper()
	if got, want := labelOf(t, path), fileLabel+fileType+":"+level; got != want {
		t.Errorf("%s has the label %s, want %s", path, got, want)
	}
}
