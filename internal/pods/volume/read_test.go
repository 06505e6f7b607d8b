package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestAFileOfAVolumeIsRead(t *testing.T) {
	w := newWorld(t)
	p := podWith(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	name := p.Spec.Volumes[0].Name
	if _, err := w.m.File(t.Context(), p, name, "a"); err == nil || !strings.Contains(err.Error(), "not set up") {
		t.Errorf("before it is set up: %v", err)
	}
	w.setup(p)
	dir := w.dir(p)

	// given what a container may arrange there
	secret := filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{secret: "secret", filepath.Join(dir, "plain"): "A='1'\n", filepath.Join(dir, "large"): strings.Repeat("x", maxRead+1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": secret, "up": "../../../../../../etc", "within": "plain", "round": "round"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}

	// then plain files can be read, and nothing else
	for _, path := range []string{"plain", "within", "./plain"} {
		if got, err := w.m.File(t.Context(), p, name, path); err != nil || got != "A='1'\n" {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	for path, says := range map[string]string{
		"out": "leads out", "up/passwd": "leads out", "round": "leads out", "../x": "'..'", "/etc/passwd": "relative", "": "empty",
		"pipe": "not a plain file", ".": "not a plain file", "large": "larger than 64 KiB",
	} {
		if got, err := w.m.File(t.Context(), p, name, path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %q, %v, want %s", path, got, err, says)
		}
	}
	if _, err := w.m.File(t.Context(), p, name, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}

func FuzzFilesAreReadWithinTheirVolume(f *testing.F) {
	for _, path := range []string{"in", "../out", "/out", "link/out", "link", "a/../in", ".", "in\x00"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		top := t.TempDir()
		dir := filepath.Join(top, "volume")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"out": "out", "volume/in": "in"} {
			if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("..", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		clean, err := cleanPath(path)
		if err != nil {
			return
		}
		if got, err := readIn(dir, clean); err == nil && got != "in" {
			t.Errorf("%q leads to %q", path, got)
		}
	})
}
