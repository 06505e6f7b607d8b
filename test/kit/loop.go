package kit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// LoopDevice is a device of this machine that holds a text, and the file behind it.
func LoopDevice(t *testing.T, text string) (device, file string) {
	t.Helper()
	const block = 4096
	file = filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(file, append([]byte(text), bytes.Repeat([]byte("."), block-len(text))...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Fatalf("make a loop device: %v: %s", err, out)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %v: %s", device, err, out)
		}
	})
	return device, file
}
