//go:build real

package kit

import (
	"os"
	"os/exec"
	"path/filepath"
)

// MountSmallDisk puts the root directory of a node on a disk of its own.
func (n *Node) MountSmallDisk(megabytes string) {
	n.T.Helper()
	disk := filepath.Join(n.Dir, "disk")
	if err := os.MkdirAll(filepath.Join(n.Dir, "root"), 0o755); err != nil {
		n.T.Fatal(err)
	}
	MustRun(n.T, "truncate", "-s", megabytes+"M", disk)
	MustRun(n.T, "mkfs.ext4", "-q", "-m", "0", disk)
	MustRun(n.T, "mount", "-o", "loop", disk, n.Root)
	n.T.Cleanup(func() {
		if out, err := exec.Command("umount", n.Root).CombinedOutput(); err != nil {
			n.T.Errorf("umount %s: %v: %s", n.Root, err, out)
		}
	})
}
