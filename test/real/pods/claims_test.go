//go:build real

package pods

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

func TestAVolumeForOnePodIsHadByOneAtATime(t *testing.T) {
	t.Parallel()
	// given a pod that has one, and another that wants it
	n := kit.NewNode(t)
	disk, claim := n.NewLocalVolume("disk", "1Gi"), kit.NewClaim("data")
	disk.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	claim.Spec.AccessModes = disk.Spec.AccessModes
	pod := func(name string) *v1.Pod {
		p := kit.ReadablePod(name)
		kit.AddVolume(p, "/data", kit.ClaimVolume("data"))
		return p
	}
	n.ApplyObjects("objects.yaml", disk, claim)
	n.ApplyObjects("second.yaml", pod("second"))
	n.Start()
	n.WaitRunning("second")
	n.ApplyObjects("first.yaml", pod("first")) // it comes before the other one in the folder
	const says = "volume uses the ReadWriteOncePod access mode and is already in use by another pod: default/second-" + kit.NodeName

	// then it waits, and says for whom
	waitMessage(n, "first", says)
	if e := n.WaitEvent(n.Pod("first"), "FailedMount"); !strings.Contains(e.Message, says) {
		t.Error(e.Message)
	}

	// when the agent is another one, then they stay as they are
	life := func() map[string]kit.ContainerInstance {
		return n.Instances(map[string]v1.Pod{"second": n.WaitRunning("second")["second"]})
	}
	before := life()
	n.KillAgent()
	n.Start()
	waitMessage(n, "first", says)
	if after := life(); !maps.Equal(after, before) {
		t.Errorf("it was %+v, and now is %+v", before, after)
	}

	// when the one is gone, then the other has it at once
	gone := time.Now()
	n.RemoveManifest("second.yaml")
	p := n.WaitRunning("first")["first"]
	t.Logf("it runs after %s", time.Since(gone).Round(time.Millisecond))
	if name := n.ReadFile(p, "/data/name"); name != "disk" {
		t.Errorf("its volume is %q", name)
	}
}

func TestWhatAVolumeAsksForIsDone(t *testing.T) {
	t.Parallel()
	// given a volume for a group, and one that is read-only
	n := kit.NewNode(t)
	if err := os.Chmod(n.Dir, 0o711); err != nil {
		t.Fatal(err)
	}
	group, locked := n.NewLocalVolume("group", "1Gi"), n.NewLocalVolume("locked", "1Gi")
	group.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": "4711"}
	if err := os.Chown(group.Spec.Local.Path, 0, 4711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(group.Spec.Local.Path, 0o770); err != nil {
		t.Fatal(err)
	}
	locked.Spec.MountOptions = []string{"ro", "noatime"}
	p := kit.ReadablePod("web")
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(1000))}
	kit.AddVolume(p, "/group", kit.ClaimVolume("group"))
	kit.AddVolume(p, "/locked", kit.ClaimVolume("locked"))
	for _, pv := range []*v1.PersistentVolume{group, locked} {
		claim := kit.NewClaim(pv.Name)
		claim.Spec.VolumeName = pv.Name
		n.ApplyObjects(pv.Name+".yaml", pv, claim)
	}
	// and one that can't be had
	host := n.NewLocalVolume("host", "1Gi")
	host.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: n.Dir}}
	host.Spec.MountOptions = []string{"ro"}
	claim := kit.NewClaim("host")
	claim.Spec.VolumeName = "host"
	bad := kit.ReadablePod("bad")
	kit.AddVolume(bad, "/host", kit.ClaimVolume("host"))
	n.ApplyObjects("pods.yaml", p, host, claim, bad)
	n.Start()
	web := n.WaitRunning("web")["web"]

	// then its users are in the group, and the other can't be written to
	if groups := n.ProcStatus(web, "Groups"); !strings.Contains(groups, "4711") {
		t.Errorf("it is in the groups %q", groups)
	}
	if !canWrite(n, web, "/group/x") {
		t.Error("it can't write to the volume of its group")
	}
	if line := mountedIn(n, web, "/locked"); !strings.Contains(line, " ro,") || !strings.Contains(line, "noatime") {
		t.Error(line)
	}
	waitMessage(n, "bad", "mount options are not supported for this volume type (hostPath)")
}
