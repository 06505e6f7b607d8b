//go:build real

package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/podfile"
)

// The programs of a machine differ: that of busybox knows no option of util-linux.
func TestRealUnmountNeedsNoProgramOfTheMachine(t *testing.T) {
	w := newRealWorld(t)
	w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: t.TempDir()}})
	p := podWith(claimVolume("data"))
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "part"
	w.setup(p)
	w.dir(p)
	t.Setenv("PATH", t.TempDir())
	w.teardown(p)
}

func TestRealUnmountInAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	at := MountPoint{Path: filepath.Join(dir, "at")} // of an unknown kind
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(at.Path, 0o700), os.Symlink("at", link), unix.Mount("tmpfs", at.Path, "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at.Path, unix.MNT_DETACH) })
	t.Setenv("PATH", "")

	// given a file that is open, then it stays, and it is said why
	open, err := os.Create(filepath.Join(at.Path, "open"))
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel().Unmount(t.Context(), at); !errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
	open.Close()
	// no link is followed
	if err := kernel().Unmount(t.Context(), MountPoint{Path: link}); !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
	if mounted, err := kernel().IsMount(at.Path); !mounted || err != nil {
		t.Fatal("it was unmounted by another name", err)
	}
	// when no process uses it, then it is unmounted, and only once
	if err := kernel().Unmount(t.Context(), at); err != nil {
		t.Error(err)
	}
	if err := kernel().Unmount(t.Context(), at); !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
}

// The process must be one that can be killed while it waits for a file system.
func TestRealUnmountIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	hang(t, dir)
	below := filepath.Join(dir, "below") // a path on a file system that hangs
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := kernel().Unmount(ctx, MountPoint{Path: below, FSType: "nfs4"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "umount did not end") {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Error("it took", took)
	}
}

func TestRealMountOptionsOfALocalVolume(t *testing.T) {
	const restricted = unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_NOATIME
	w := newRealWorld(t)
	disk := t.TempDir()
	_, pv := w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}})
	p := withGroup(podWith(claimVolume("data")), 4242)
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "vol", MountPath: "/part", SubPath: "part"})

	// given a volume with options, then they hold for all of it, and for a part of it
	pv.Spec.MountOptions = []string{"noexec", "nosuid", "nodev", "noatime", "defaults", "discard"}
	w.setup(p)
	mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if got := flags(t, m.HostPath); got&restricted != restricted || got&unix.ST_RDONLY != 0 || m.ReadOnly {
			t.Errorf("%s has flags %x, read-only: %t", m.ContainerPath, got, m.ReadOnly)
		}
	}
	// and nowhere else
	if got := flags(t, disk); got&unix.ST_NOEXEC != 0 {
		t.Errorf("the disk of the machine has flags %x", got)
	}
	w.teardown(p)

	// given a read-only volume, then no write succeeds, also after a restart
	pv.Spec.MountOptions, pv.Annotations = nil, map[string]string{v1.MountOptionAnnotation: "ro,nodev"}
	p.Spec.Containers[0].VolumeMounts = p.Spec.Containers[0].VolumeMounts[:1]
	w.setup(p)
	w.restart()
	w.setup(p)
	mounts, err = w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil || !mounts[0].ReadOnly || flags(t, mounts[0].HostPath)&(unix.ST_RDONLY|unix.ST_NODEV) != unix.ST_RDONLY|unix.ST_NODEV {
		t.Error(mounts, err)
	}
	w.teardown(p)
}

// flags returns the flags of the mount that a path is on.
func flags(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Flags
}

func TestRealAGroupGetsNothingOfAnotherMount(t *testing.T) {
	w := newRealWorld(t)
	disk := t.TempDir()
	at, file, bound := filepath.Join(disk, "lost"), filepath.Join(disk, "file"), filepath.Join(disk, "bound")
	foreign := t.TempDir()
	if err := errors.Join(
		os.Mkdir(at, 0o700), os.WriteFile(file, nil, 0o600), os.WriteFile(bound, nil, 0o600), os.WriteFile(filepath.Join(foreign, "file"), nil, 0o600),
		unix.Mount("tmpfs", at, "tmpfs", 0, "mode=0700"), os.WriteFile(filepath.Join(at, "theirs"), nil, 0o600),
		unix.Mount(filepath.Join(foreign, "file"), bound, "", unix.MS_BIND, ""), // of the same file system: only the mount tells
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Unmount(at, 0), unix.Unmount(bound, 0) })
	w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}})
	p := withGroup(podWith(claimVolume("data")), 4242)

	w.setup(p)

	for path, want := range map[string]int{disk: 4242, file: 4242, at: 0, filepath.Join(at, "theirs"): 0, filepath.Join(foreign, "file"): 0} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := owner(info); got != want {
			t.Errorf("%s belongs to group %d, want %d", path, got, want)
		}
	}
	if m := mode(t, at); m != os.ModeDir|0o700 {
		t.Error("the mode of what is mounted there is", m)
	}
	w.teardown(p)
}

func TestRealMountsOnAPathAreReadFromTheKernel(t *testing.T) {
	top := t.TempDir()
	at := filepath.Join(top, "at")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	expect := func(fstype string, mounted bool) {
		t.Helper()
		got, is, err := kernel().At(at)
		if err != nil || is != mounted || is && got != (MountPoint{Path: at, FSType: fstype}) {
			t.Errorf("got %+v, %t, %v; want %s", got, is, err, fstype)
		}
		id, _, err := mountID(at)
		if err != nil {
			t.Fatal(err)
		}
		if !mounted || id == 0 { // kernels before 6.8: from the mount table
			return
		}
		if direct, err := mountType(id); err != nil || direct != fstype {
			t.Errorf("the kernel says %q, %v", direct, err)
		}
	}
	expect("", false)
	for _, fstype := range []string{"tmpfs", "proc"} { // one hides the other
		if err := unix.Mount(fstype, at, fstype, 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		expect(fstype, true)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	expect("tmpfs", true)
	if _, is, err := kernel().At(filepath.Join(top, "not there")); is || err != nil {
		t.Error(is, err)
	}
	// nothing behind it goes with the directory
	precious := filepath.Join(at, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{at, top} {
		if err := podfile.RemoveAll(filepath.Dir(dir), filepath.Base(dir)); !errors.Is(err, podfile.ErrMountPoint) || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// countingKernel counts how often all mounts are listed.
type countingKernel struct {
	Kernel
	tables *int
}

func (k countingKernel) Below(dir string) ([]MountPoint, error) {
	*k.tables++
	return k.Kernel.Below(dir)
}

func TestRealVolumesGoWithoutTheMountTable(t *testing.T) {
	w := newRealWorld(t)
	tables := 0
	w.cfg.Mounter = countingKernel{kernel(), &tables}
	w.restart()
	p := podWith(emptyDir(v1.StorageMediumMemory, ""))
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "part"
	w.setup(p)
	w.dir(p)
	w.teardown(p)
	if id, _, err := mountID("/proc"); tables != 0 && id != 0 || err != nil {
		t.Errorf("all mounts were listed %d times; %v", tables, err)
	}
}
