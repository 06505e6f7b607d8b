//go:build real

package kit

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// HungMount is a file system that never answers, until wake is called: then every answer
// is an error. What it is asked can be read from its device.
func HungMount(t *testing.T) (dir string, device int, wake func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hung-")
	Must(t, err)
	device, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	Must(t, err)
	wake = sync.OnceFunc(func() { _ = unix.Close(device) })
	t.Cleanup(func() {
		wake()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		os.Remove(dir)
	})
	Must(t, unix.Mount("hung", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device)))
	return dir, device, wake
}
