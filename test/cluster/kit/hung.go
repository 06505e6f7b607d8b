//go:build real

package kit

import (
	"os"
	"testing"

	"berth/test/fixture"
)

// HungMount is fixture.MountHung at a folder of its own.
func HungMount(t *testing.T) (dir string, device int, wake func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hung-")
	Must(t, err)
	t.Cleanup(func() { os.Remove(dir) })
	device, wake = fixture.MountHung(t, dir)
	return dir, device, wake
}
