//go:build real

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The tests run in a mount namespace of their own, so that no mount of theirs is seen
// by anybody else: the test program starts itself again in a new one.
const inMountns = "BERTH_TEST_MOUNTNS"

// asUnmounter makes the test program unmount a path, and nothing else.
const asUnmounter = "unmount-for-a-test"

// kernel is the real one.
func kernel() Kernel { return Kernel{Unmounter: []string{"/proc/self/exe", asUnmounter}} }

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asUnmounter {
		os.Exit(UnmountNow(os.Args[2]))
	}
	if os.Getenv(inMountns) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "keep mounts to ourselves:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inMountns+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "tests in a mount namespace (root is needed):", err)
		os.Exit(1)
	}
}

func newRealWorld(t *testing.T) *world {
	w := newWorld(t)
	w.cfg.Mounter = kernel()
	w.restart()
	return w
}

func (w *world) teardown(p *v1.Pod) {
	w.t.Helper()
	if err := w.m.Teardown(w.t.Context(), p.UID); err != nil {
		w.t.Fatal(err)
	}
	mounts, err := Kernel{}.Below(w.cfg.PodsDir)
	if err != nil || len(mounts) > 0 {
		w.t.Error("still mounted:", mounts, err)
	}
	if left, err := os.ReadDir(filepath.Join(w.cfg.PodsDir, string(p.UID))); len(left) > 0 || err != nil {
		w.t.Error("left:", left, err)
	}
}

func fsType(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Type
}

func TestRealMemory(t *testing.T) {
	w := newRealWorld(t)
	p := withGroup(podWith(emptyDir(v1.StorageMediumMemory, "1Mi")), 4242)
	w.setup(p)
	dir := w.dir(p)
	if fsType(t, dir) != unix.TMPFS_MAGIC || mode(t, dir) != os.ModeDir|os.ModeSetgid|os.ModeSticky|0o777 {
		t.Error(fsType(t, dir), mode(t, dir))
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Error("the size is not limited:", err)
	}
	w.restart()
	w.setup(p) // and not on top of the first
	w.teardown(p)
}

func TestRealHugePages(t *testing.T) {
	w := newRealWorld(t)
	p := podWith(emptyDir("HugePages-2Mi", ""))
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}
	w.setup(p)
	if fsType(t, w.dir(p)) != unix.HUGETLBFS_MAGIC {
		t.Error("not a hugetlbfs")
	}
	w.teardown(p)
}

func TestRealSecretNeverTouchesTheDisk(t *testing.T) {
	w := newRealWorld(t)
	w.objects.secrets["s"] = &v1.Secret{Data: map[string][]byte{"a": []byte("1")}}
	p := withGroup(podWith(secretVolume("s")), 4242)
	w.setup(p)
	dir := w.dir(p)
	w.must(dir, map[string]string{"a": "1"})
	if fsType(t, dir) != unix.TMPFS_MAGIC {
		t.Error("on a disk")
	}
	w.restart()
	w.setup(p)
	w.must(dir, map[string]string{"a": "1"})
	w.teardown(p)
}

func TestRealThousandUpdatesWithoutAMix(t *testing.T) {
	w := newRealWorld(t)
	set := func(n int) {
		text := []byte(fmt.Sprint(n))
		w.objects.mu.Lock()
		defer w.objects.mu.Unlock()
		w.objects.secrets["s"] = &v1.Secret{Data: map[string][]byte{"a": text, "b": text}}
	}
	set(0)
	p := podWith(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{Secret: &v1.SecretProjection{
		LocalObjectReference: v1.LocalObjectReference{Name: "s"},
		Items:                []v1.KeyToPath{{Key: "a", Path: "a"}, {Key: "b", Path: "sub/b"}},
	}}}}})
	w.setup(p)
	dir := w.dir(p)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		good := 0
		for ctx.Err() == nil {
			if read(t, dir) {
				good++
			}
		}
		done <- good
	}()
	for n := 1; n <= 1000; n++ {
		set(n)
		w.setup(p)
	}
	stop()
	if good := <-done; good == 0 {
		t.Error("nothing was read")
	}
	w.teardown(p)
}
