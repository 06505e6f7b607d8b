//go:build real

package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRealSubPathIsReusedAndRemade(t *testing.T) {
	w := newRealWorld(t)
	p := podWith(emptyDir("", ""))
	w.setup(p)
	vol := w.dir(p)
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "part"
	at := w.dir(p)
	if err := os.WriteFile(filepath.Join(at, "file"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must(filepath.Join(vol, "part"), map[string]string{"file": "1"})

	w.restart()
	w.setup(p)
	if again := w.dir(p); again != at {
		t.Error(again)
	}
	if mounts, _ := (Kernel{}).Below(w.cfg.PodsDir); len(mounts) != 1 {
		t.Error("mounted on top:", mounts)
	}

	// The directory is another one now.
	if err := errors.Join(os.Rename(filepath.Join(vol, "part"), filepath.Join(vol, "old")), os.Mkdir(filepath.Join(vol, "part"), 0o700)); err != nil {
		t.Fatal(err)
	}
	w.must(w.dir(p), nil)

	// And now a file.
	if err := errors.Join(os.Remove(filepath.Join(vol, "part")), os.WriteFile(filepath.Join(vol, "part"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(w.dir(p)); string(got) != "x" || err != nil {
		t.Error(got, err)
	}
	w.teardown(p)
}

// A container swaps a directory for a link to the host while the agent looks.
func TestRealSubPathRace(t *testing.T) {
	w := newRealWorld(t)
	p := podWith(emptyDir("", ""))
	w.setup(p)
	vol := w.dir(p)
	outside := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(outside, "host"), nil, 0o600),
		os.Mkdir(filepath.Join(outside, "sub"), 0o700),
		os.MkdirAll(filepath.Join(vol, "a/sub"), 0o700),
		os.Symlink(outside, filepath.Join(vol, "evil")),
		os.WriteFile(filepath.Join(outside, "sub", "host"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(vol, "a"), unix.AT_FDCWD, filepath.Join(vol, "evil"), unix.RENAME_EXCHANGE)
		}
	}()
	vm := &p.Spec.Containers[0].VolumeMounts[0]
	good, refused := 0, 0
	for i := range 500 {
		vm.SubPath = []string{"a/sub", "a", "a/new/deep"}[i%3]
		m, err := w.mount(p, nil)
		if err != nil {
			refused++
			continue
		}
		good++
		if _, err := os.Stat(filepath.Join(m.HostPath, "host")); err == nil {
			t.Fatal("the host is mounted for ", vm.SubPath)
		}
	}
	stop()
	<-done
	if good == 0 || refused == 0 {
		t.Error("nothing was raced for:", good, refused)
	}
	if _, err := os.Stat(filepath.Join(outside, "new")); err == nil {
		t.Error("a directory was made on the host")
	}
	w.teardown(p)
	if _, err := os.Stat(filepath.Join(outside, "host")); err != nil {
		t.Error(err)
	}
}
