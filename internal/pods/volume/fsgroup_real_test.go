//go:build real

package volume

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

func TestRealAVolumeThatCantBeGivenAwayIsUsedAsItIs(t *testing.T) {
	w := newRealWorld(t)
	var log bytes.Buffer
	w.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.restart()
	// given a file system that refuses to change its files
	disk := t.TempDir()
	if err := os.WriteFile(filepath.Join(disk, "file"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(disk, disk, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, 0) })
	if err := unix.Mount("", disk, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}})
	p := podWith(claimVolume("data"))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(4242))}

	// then the pod has it nevertheless, and the log says what is missing
	w.setup(p)
	w.must(w.dir(p), map[string]string{"file": "hello"})
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "group=4242") || !strings.Contains(text, "files=2") || !strings.Contains(text, "read-only file system") {
		t.Error(text)
	}
	w.teardown(p)
}
