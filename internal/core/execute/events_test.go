package execute

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pods/volume"
	"berth/internal/runtime/render"
)

func (n *node) expectEvents(want ...string) {
	n.t.Helper()
	for _, e := range want {
		if !slices.Contains(n.events.All(), e) {
			n.t.Errorf("there is no event %q in %q", e, n.events.All())
		}
	}
}

func TestACgroupThatCantBeMadeIsAnEvent(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.Host.MakeCgroup = func(context.Context, render.Cgroup) error { return errors.New("no room") }
		if _, err := n.sync(web("a", "app")); err == nil {
			t.Fatal("want an error")
		}
		n.expectEvents("FailedCreatePodContainer unable to ensure pod container exists: no room")
	})
}

func TestADirectoryThatCantBeMadeIsAnEvent(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		file := n.podDir(p.UID)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectEvents("Failed error making pod data directories: make the pod's directory: mkdir " + file + ": not a directory")
	})
}

func TestABlockDeviceHasAnEventOfItsOwn(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk"}}
		n.volumes.Fail(volume.Errors{{Volume: "disk", Err: errors.New("not attached")}, {Volume: "cfg", Err: errors.New("not found")}})
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectEvents(`FailedMapVolume MapVolume.SetUp failed for volume "disk": not attached`, `FailedMount MountVolume.SetUp failed for volume "cfg": not found`)
	})
}

func TestAPodThatCantBeStoppedIsAnEvent(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		n.runtime.Fail("StopSandbox", errors.New("busy"))
		for range 2 {
			if _, err := n.stop(p); err != nil {
				n.expectEvents("FailedKillPod error killing pod: why: busy")
				return
			}
		}
		t.Error("the pod was stopped")
	})
}

func TestAHostIPOfAnotherFamilyIsAnEvent(t *testing.T) {
	onNode(t, 1, func(n *node) {
		ips := []string{"10.0.0.1"}
		n.Host.IPs = func() []string { return ips }
		p := web("a", "app")
		n.settle(p)
		ips = []string{"10.0.0.2"}
		n.settle(p)
		ips = []string{"fd00::1"}
		n.settle(p)
		n.settle(p)

		const want = "HostIPsIPFamilyMismatch The host IP was 10.0.0.2, and the cloud has chosen fd00::1, of the other family: set --node-ip"
		n.expectEvents(want)
		if count := len(slices.DeleteFunc(n.events.All(), func(e string) bool { return !strings.HasPrefix(e, "HostIPs") })); count != 1 {
			t.Errorf("%d such events", count)
		}
	})
}
