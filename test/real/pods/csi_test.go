//go:build real

package pods

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

const testDriver = "disks.example.com"

func inline(name string) *v1.Pod {
	p := kit.ReadablePod(name)
	kit.AddVolume(p, "/vol", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: testDriver}})
	return p
}

// handle is how a driver knows the volume of a pod alone.
func handle(p v1.Pod) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(p.UID)+"vol")))
}

func TestAVolumeOfADriver(t *testing.T) {
	t.Parallel()
	// given a pod that is there before its driver
	n := kit.NewNode(t)
	before := n.Traces(nil)
	n.Apply("web.yaml", inline("web"))
	n.Start()
	waitMessage(n, "web", `CSI driver "disks.example.com" is not registered on this node`)

	// when the driver comes, then the pod runs with its volume
	d := newDriver(n, testDriver)
	p := n.WaitRunning("web")["web"]
	if !canWrite(n, p, "/vol/x") {
		t.Error("it can't be written to")
	}
	if _, err := os.Stat(filepath.Join(d.dir, "volumes", handle(p), "x")); err != nil {
		t.Error("it is not the driver's:", err)
	}
	if want := "publish " + handle(p) + " for web-node"; !slices.Equal(d.calls(), []string{want}) {
		t.Error(d.calls())
	}

	// when the agent is killed and the pod goes meanwhile, then the next one undoes it
	n.KillAgent()
	n.RemoveManifest("web.yaml")
	n.Start()
	d.waitCall("unpublish " + handle(p))
	waitNoVolumes(n)

	// when the driver is gone before its pod, then the pod waits for it, and says so
	n.Apply("web.yaml", inline("web"))
	p = n.WaitRunning("web")["web"]
	d.stop()
	n.RemoveManifest("web.yaml")
	n.Wait("the driver to be missed", kit.StartTimeout, func() string {
		text, err := os.ReadFile(n.LogFile())
		return kit.MissingUnless(err == nil && strings.Contains(string(text), `take volume \"`+handle(p)+`\" of CSI driver \"disks.example.com\" away`))
	})
	if _, err := os.Stat(volumeOf(n, p, "kubernetes.io~csi", "vol", "mount", "x")); err == nil {
		t.Error("there is something that the first pod left")
	}
	d.start()
	n.WaitGone("web")

	// and nothing is left in the end
	n.Down()
	n.MustEqualTraces(before, n.Traces(nil))
}

func TestAnAgentThatIsKilledWhileADriverWorks(t *testing.T) {
	t.Parallel()
	// given a driver that does not answer for one volume
	n := kit.NewNode(t)
	d := newDriver(n, testDriver)
	n.Start()
	n.Apply("web.yaml", inline("web"))
	n.Wait("the pod", kit.StartTimeout, func() string { _, ok := n.Pods()["web"]; return kit.MissingUnless(ok) })
	volume := handle(n.Pod("web"))
	n.WaitRunning("web")
	n.RemoveManifest("web.yaml")
	n.WaitGone("web")
	wake := d.hang(volume) // the same manifest is the same pod
	n.Apply("web.yaml", inline("web"))
	n.Apply("other.yaml", inline("other"))
	d.waitCall("hanging " + volume)

	// then only its pod waits
	n.WaitRunning("other")

	// when the agent is killed there, and the pod is removed, then all is undone
	n.KillAgent()
	n.RemoveManifest("web.yaml")
	n.Start()
	d.waitCall("busy " + volume)
	wake()
	n.RemoveManifest("other.yaml")
	waitNoVolumes(n)
	if left, err := os.ReadDir(filepath.Join(d.dir, "volumes")); len(left) > 0 || err != nil {
		t.Error("data is left:", left, err)
	}
}

// waitNoVolumes waits until no pod has a volume of a driver any more. Those of pods that
// no record has are taken away in passing.
func waitNoVolumes(n *kit.Node) {
	n.T.Helper()
	n.Wait("volumes of drivers to be gone", kit.StartTimeout, func() string {
		left, err := filepath.Glob(filepath.Join(n.Root, "pods", "*", "volumes", "kubernetes.io~csi", "*"))
		if err != nil {
			n.T.Fatal(err)
		}
		return strings.Join(left, " ")
	})
}
