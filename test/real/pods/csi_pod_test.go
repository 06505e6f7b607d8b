//go:build real

package pods

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

// inAPod is the pod of a driver, as drivers are shipped: it is privileged, and its mounts propagate to
// the machine.
func (d *csiDriver) inAPod() *v1.Pod {
	p := kit.NewPod("driver")
	c := &p.Spec.Containers[0]
	c.Command = d.command()
	c.SecurityContext = &v1.SecurityContext{Privileged: new(true)}
	for name, dir := range map[string]string{"csi": d.dir, "registry": d.n.Root + "/plugins_registry", "pods": d.n.Root + "/pods", "plugins": d.n.Root + "/plugins"} {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: hostPath(dir, v1.HostPathDirectory)})
		as := v1.VolumeMount{Name: name, MountPath: dir}
		if name == "pods" || name == "plugins" {
			as.MountPropagation = new(v1.MountPropagationBidirectional)
		}
		c.VolumeMounts = append(c.VolumeMounts, as)
	}
	return p
}

func TestADriverThatRunsInAPod(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	before := n.Traces(nil)
	d := placeDriver(n, testDriver)
	// given pods with a volume each, and their driver, which all come together
	n.Apply("driver.yaml", d.inAPod())
	n.Apply("pods.yaml", inline("one"), inline("two"))
	n.Start()
	pods := n.WaitRunning("driver", "one", "two")
	for _, name := range []string{"one", "two"} {
		if !canWrite(n, pods[name], "/vol/x") {
			t.Errorf("%s can't write to its volume", name)
		}
		if _, err := os.Stat(filepath.Join(d.dir, "volumes", handle(pods[name]), "x")); err != nil {
			t.Error("it is not the driver's:", err)
		}
	}

	// when all is taken down, then the driver is there for as long as it is needed
	n.Down()
	for _, name := range []string{"one", "two"} {
		if want := "unpublish " + handle(pods[name]); !slices.Contains(d.calls(), want) {
			t.Errorf("no %q in %q", want, d.calls())
		}
	}
	n.MustEqualTraces(before, n.Traces(nil))
}
