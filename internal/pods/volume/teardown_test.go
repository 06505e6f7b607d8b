package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestTeardownAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.objects.secrets["s"] = &v1.Secret{Data: map[string][]byte{"a": []byte("1")}}
	p := podWith(secretVolume("s"))
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "scratch", VolumeSource: emptyDir("", "")})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "scratch", MountPath: "/s", SubPath: "x"})
	w.setup(p)
	w.dir(p)
	kept := filepath.Join(w.cfg.PodsDir, "u-1", "etc-hosts")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.restart()

	for range 2 {
		if err := w.m.Teardown(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
	}

	if len(w.mounter.mounts) > 0 {
		t.Error("still mounted:", w.mounter.mounts)
	}
	if got := w.mounter.done[2:]; strings.Join(got, ", ") != "unmount 1, unmount vol" {
		t.Error(got)
	}
	left, err := os.ReadDir(filepath.Join(w.cfg.PodsDir, "u-1"))
	if err != nil || len(left) != 1 || left[0].Name() != "etc-hosts" {
		t.Error(left, err)
	}
	if err := w.m.Teardown(t.Context(), "never-seen"); err != nil {
		t.Error(err)
	}
	if _, err := w.mount(p, nil); err == nil {
		t.Error("a volume that is gone can still be mounted")
	}
}

func TestAMountThatIsInUseKeepsEverything(t *testing.T) {
	w := newWorld(t)
	p := podWith(emptyDir(v1.StorageMediumMemory, ""))
	w.setup(p)
	dir := w.dir(p)
	data := filepath.Join(dir, "data")
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.mounter.busy = dir

	for range 2 {
		err := w.m.Teardown(t.Context(), p.UID)
		want := fmt.Sprintf("unmount %s (tmpfs), since %s: it is in use", dir, timestamp(w.m.stuck[dir]))
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}

	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
	if len(w.m.stuck) != 1 {
		t.Error(w.m.stuck)
	}
	w.mounter.busy = ""
	if err := w.m.Teardown(t.Context(), p.UID); err != nil || len(w.m.stuck) != 0 {
		t.Error(err, w.m.stuck)
	}
}

func TestAnUnmountThatHangsBlocksOnlyItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := podWith(emptyDir(v1.StorageMediumMemory, ""))
		other := podWith(emptyDir("", ""))
		other.UID = "u-2"
		w.setup(p)
		w.setup(other)
		dir := w.dir(p)
		w.mounter.block = make(chan struct{})

		want := "unmount " + dir + ": not done since " + timestamp(time.Now())
		for range 2 {
			if err := w.m.Teardown(t.Context(), p.UID); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if err := w.m.Teardown(t.Context(), other.UID); err != nil {
			t.Error(err)
		}

		close(w.mounter.block)
		if err := w.m.Teardown(t.Context(), p.UID); err != nil {
			t.Error(err)
		}
	})
}

func TestRemovalFollowsNoLink(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	p := podWith(emptyDir("", ""))
	w.setup(p)
	for i, target := range []string{outside, filepath.Join(outside, "precious"), "../../../../.."} {
		if err := os.Symlink(target, filepath.Join(w.dir(p), fmt.Sprint("link", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.m.Teardown(t.Context(), p.UID); err != nil {
		t.Error(err)
	}
	// Nor is the volumes directory itself followed, should it be a link.
	if err := os.Symlink(outside, filepath.Join(w.cfg.PodsDir, "u-1", "volumes")); err != nil {
		t.Fatal(err)
	}
	if err := w.m.Teardown(t.Context(), p.UID); err == nil {
		t.Error("a link in the place of volumes is taken for granted")
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error(err)
	}
}
