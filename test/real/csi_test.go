//go:build real

package real

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const testDriver = "disks.example.com"

func inline(name string) *v1.Pod {
	p := open(name)
	mount(p, "/vol", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: testDriver}})
	return p
}

// handle is how a driver knows the volume of a pod alone.
func handle(p v1.Pod) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(p.UID)+"vol")))
}

func TestAVolumeOfADriver(t *testing.T) {
	t.Parallel()
	// given a pod that is there before its driver
	n := newNode(t)
	before := n.look(nil)
	n.apply("web.yaml", inline("web"))
	n.start()
	n.waitMessage("web", `CSI driver "disks.example.com" is not registered on this node`)

	// when the driver comes, then the pod runs with its volume
	d := n.newDriver(testDriver)
	p := n.waitRunning("web")["web"]
	if !n.canWrite(p, "/vol/x") {
		t.Error("it can't be written to")
	}
	if _, err := os.Stat(filepath.Join(d.dir, "volumes", handle(p), "x")); err != nil {
		t.Error("it is not the driver's:", err)
	}
	if want := "publish " + handle(p) + " for web-node"; !slices.Equal(d.calls(), []string{want}) {
		t.Error(d.calls())
	}

	// when the agent is killed and the pod goes meanwhile, then the next one undoes it
	n.crash()
	n.remove("web.yaml")
	n.start()
	d.waitCall("unpublish " + handle(p))
	n.waitNoVolumes()

	// when the driver is gone before its pod, then the pod waits for it, and says so
	n.apply("web.yaml", inline("web"))
	p = n.waitRunning("web")["web"]
	d.stop()
	n.remove("web.yaml")
	n.wait("the driver to be missed", startLimit, func() string {
		text, err := os.ReadFile(n.logFile())
		return boolText(err == nil && strings.Contains(string(text), `take volume \"`+handle(p)+`\" of CSI driver \"disks.example.com\" away`))
	})
	if _, err := os.Stat(n.volumeOf(p, "kubernetes.io~csi", "vol", "mount", "x")); err == nil {
		t.Error("there is something that the first pod left")
	}
	d.start()
	n.waitGone("web")

	// and nothing is left in the end
	n.down()
	n.mustBeAsBefore(before, n.look(nil))
}

func TestAnAgentThatIsKilledWhileADriverWorks(t *testing.T) {
	t.Parallel()
	// given a driver that does not answer for one volume
	n := newNode(t)
	d := n.newDriver(testDriver)
	n.start()
	n.apply("web.yaml", inline("web"))
	n.wait("the pod", startLimit, func() string { _, ok := n.pods()["web"]; return boolText(ok) })
	volume := handle(n.pod("web"))
	n.waitRunning("web")
	n.remove("web.yaml")
	n.waitGone("web")
	wake := d.hang(volume) // the same manifest is the same pod
	n.apply("web.yaml", inline("web"))
	n.apply("other.yaml", inline("other"))
	d.waitCall("hanging " + volume)

	// then only its pod waits
	n.waitRunning("other")

	// when the agent is killed there, and the pod is removed, then all is undone
	n.crash()
	n.remove("web.yaml")
	n.start()
	d.waitCall("busy " + volume)
	wake()
	n.remove("other.yaml")
	n.waitNoVolumes()
	if left, err := os.ReadDir(filepath.Join(d.dir, "volumes")); len(left) > 0 || err != nil {
		t.Error("data is left:", left, err)
	}
}

// waitNoVolumes waits until no pod has a volume of a driver any more. Those of pods that
// nobody knows are taken away in passing.
func (n *node) waitNoVolumes() {
	n.t.Helper()
	n.wait("volumes of drivers to be gone", startLimit, func() string {
		left, err := filepath.Glob(filepath.Join(n.root, "pods", "*", "volumes", "kubernetes.io~csi", "*"))
		if err != nil {
			n.t.Fatal(err)
		}
		return strings.Join(left, " ")
	})
}
