//go:build real

package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/podfile"
)

func TestRealLocalVolume(t *testing.T) {
	w := newRealWorld(t)
	disk := t.TempDir()
	if err := os.WriteFile(filepath.Join(disk, "file"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}})
	p := withGroup(podWith(claimVolume("data")), 4242)
	w.setup(p)
	w.must(w.dir(p), map[string]string{"file": "1"})
	w.restart()
	w.setup(p)
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "part"
	w.dir(p)
	w.teardown(p)
	if left, err := os.ReadDir(disk); len(left) != 2 || err != nil {
		t.Error("data was lost:", left, err)
	}
}

func TestRealTeardownOfWhatOthersMounted(t *testing.T) {
	w := newRealWorld(t)
	precious := t.TempDir()
	if err := os.WriteFile(filepath.Join(precious, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := podWith(emptyDir("", ""))
	w.setup(p)
	at := filepath.Join(w.dir(p), "a b", "mount")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one hides the other
		if err := unix.Mount(precious, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	w.teardown(p)
	if _, err := os.Stat(filepath.Join(precious, "data")); err != nil {
		t.Fatal("data was lost:", err)
	}
}

func TestRealRemovalStopsAtAMount(t *testing.T) {
	top, precious := t.TempDir(), t.TempDir()
	at := filepath.Join(top, "tree", "mount")
	if err := errors.Join(os.WriteFile(filepath.Join(precious, "data"), nil, 0o600), os.MkdirAll(at, 0o700)); err != nil {
		t.Fatal(err)
	}
	// Of the same file system: only the mount tells.
	if err := unix.Mount(precious, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, 0) })
	dir, err := openDir(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := podfile.RemoveTree(dir, "tree"); err == nil || !strings.Contains(err.Error(), at+" is still a mount point") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(precious, "data")); err != nil {
		t.Fatal("data was lost:", err)
	}
}

func TestRealBusyMount(t *testing.T) {
	w := newRealWorld(t)
	disk := t.TempDir()
	w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}})
	p := podWith(claimVolume("data"))
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "ram", VolumeSource: emptyDir(v1.StorageMediumMemory, "")})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "ram", MountPath: "/ram"})
	w.setup(p)
	mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range mounts { // the program says so of one, and the kernel of the other
		open, err := os.Create(filepath.Join(mounts[i].HostPath, "open"))
		if err != nil {
			t.Fatal(err)
		}
		err = w.m.Teardown(t.Context(), p.UID)
		if err == nil || !strings.Contains(err.Error(), mounts[i].HostPath) || !strings.HasSuffix(err.Error(), "it is in use") {
			t.Error(err)
		}
		open.Close()
		w.setup(p)
	}
	w.teardown(p)
	if _, err := os.Stat(filepath.Join(disk, "open")); err != nil {
		t.Error("data was lost:", err)
	}
}

// hang mounts a file system that never answers, and returns how to end that.
func hang(t *testing.T, dir string) (end func()) {
	t.Helper()
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("dead", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = unix.Close(dev)
		}
	}
	t.Cleanup(func() {
		end()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return end
}

func TestRealHungFileSystemBlocksItsPodOnly(t *testing.T) {
	w := newRealWorld(t)
	w.cfg.Timeout = 300 * time.Millisecond
	w.restart()
	dead := t.TempDir()
	end := hang(t, dead)
	p := podWith(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(dead, "x")}}) // of any type

	began := time.Now()
	for range 2 {
		_, err := w.m.Setup(t.Context(), p, nil)
		var hung *HungError
		if !errors.As(err, &hung) || !strings.Contains(err.Error(), `set up volume "vol": look at `+dead) {
			t.Error(err)
		}
	}
	if err := w.m.Teardown(t.Context(), p.UID); err == nil {
		t.Error("taken down while it hangs")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Error("it took", took)
	}
	other := podWith(emptyDir("", ""))
	other.UID = "u-2"
	w.setup(other)
	w.teardown(other)

	end()
	w.setupFails(p, "hostPath: stat "+dead)
	if err := w.m.Teardown(t.Context(), p.UID); err != nil {
		t.Error(err)
	}
}

// Unmounting must not look at what is mounted: that would hang as well.
func TestRealUnmountOfAHungFileSystem(t *testing.T) {
	w := newRealWorld(t)
	w.cfg.Timeout = 5 * time.Second
	w.restart()
	p := podWith(emptyDir("", ""))
	w.setup(p)
	at := filepath.Join(w.cfg.PodsDir, "u-1", "volumes", "kubernetes.io~csi", "dead", "mount")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	hang(t, at)
	w.teardown(p)
}
