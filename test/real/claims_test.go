//go:build real

package real

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newDisk is a volume of that size in a directory of its own, with a file that names it.
func (n *node) newDisk(name, size string) *v1.PersistentVolume {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		n.t.Fatal(err)
	}
	n.put(filepath.Join(path, "name"), []byte(name))
	return &v1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{nodeName}}},
			}}}},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		},
	}
}

// newClaim asks for 1 GiB.
func newClaim(name string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func claimed(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func TestAVolumeForOnePodIsHadByOneAtATime(t *testing.T) {
	t.Parallel()
	// given a pod that has one, and another that wants it
	n := newNode(t)
	disk, claim := n.newDisk("disk", "1Gi"), newClaim("data")
	disk.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	claim.Spec.AccessModes = disk.Spec.AccessModes
	pod := func(name string) *v1.Pod {
		p := open(name)
		mount(p, "/data", claimed("data"))
		return p
	}
	n.save("objects.yaml", disk, claim)
	n.save("second.yaml", pod("second"))
	n.start()
	n.waitRunning("second")
	n.save("first.yaml", pod("first")) // it comes before the other one in the folder
	const says = "volume uses the ReadWriteOncePod access mode and is already in use by another pod: default/second-" + nodeName

	// then it waits, and says for whom
	n.waitMessage("first", says)
	if e := n.waitEvent(n.pod("first"), "FailedMount"); !strings.Contains(e.Message, says) {
		t.Error(e.Message)
	}

	// when the agent is another one, then they stay as they are
	life := func() map[string]life {
		return n.lives(map[string]v1.Pod{"second": n.waitRunning("second")["second"]})
	}
	before := life()
	n.crash()
	n.start()
	n.waitMessage("first", says)
	if after := life(); !maps.Equal(after, before) {
		t.Errorf("it was %+v, and now is %+v", before, after)
	}

	// when the one is gone, then the other has it at once
	gone := time.Now()
	n.remove("second.yaml")
	p := n.waitRunning("first")["first"]
	t.Logf("it runs after %s", time.Since(gone).Round(time.Millisecond))
	if name := n.contentOf(p, "/data/name"); name != "disk" {
		t.Errorf("its volume is %q", name)
	}
}

func TestWhatAVolumeAsksForIsDone(t *testing.T) {
	t.Parallel()
	// given a volume for a group, and one that is read-only
	n := newNode(t)
	if err := os.Chmod(n.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	group, locked := n.newDisk("group", "1Gi"), n.newDisk("locked", "1Gi")
	group.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": "4711"}
	if err := os.Chown(group.Spec.Local.Path, 0, 4711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(group.Spec.Local.Path, 0o770); err != nil {
		t.Fatal(err)
	}
	locked.Spec.MountOptions = []string{"ro", "noatime"}
	p := open("web")
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(1000))}
	mount(p, "/group", claimed("group"))
	mount(p, "/locked", claimed("locked"))
	for _, pv := range []*v1.PersistentVolume{group, locked} {
		claim := newClaim(pv.Name)
		claim.Spec.VolumeName = pv.Name
		n.save(pv.Name+".yaml", pv, claim)
	}
	// and one that can't be had
	host := n.newDisk("host", "1Gi")
	host.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: n.dir}}
	host.Spec.MountOptions = []string{"ro"}
	claim := newClaim("host")
	claim.Spec.VolumeName = "host"
	bad := open("bad")
	mount(bad, "/host", claimed("host"))
	n.save("pods.yaml", p, host, claim, bad)
	n.start()
	web := n.waitRunning("web")["web"]

	// then its users are in the group, and nobody writes to the other
	if groups := n.field(web, "Groups"); !strings.Contains(groups, "4711") {
		t.Errorf("it is in the groups %q", groups)
	}
	if !n.canWrite(web, "/group/x") {
		t.Error("it can't write to the volume of its group")
	}
	if line := n.mountedIn(web, "/locked"); !strings.Contains(line, " ro,") || !strings.Contains(line, "noatime") {
		t.Error(line)
	}
	n.waitMessage("bad", "mount options are not supported for this volume type (hostPath)")
}
