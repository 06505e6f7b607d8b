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
	run := func(name string, args ...string) {
		n.T.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			n.T.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
	}
	if err := os.MkdirAll(filepath.Join(n.Dir, "root"), 0o755); err != nil {
		n.T.Fatal(err)
	}
	run("truncate", "-s", megabytes+"M", disk)
	run("mkfs.ext4", "-q", "-m", "0", disk)
	run("mount", "-o", "loop", disk, n.Root)
	n.T.Cleanup(func() {
		if out, err := exec.Command("umount", n.Root).CombinedOutput(); err != nil {
			n.T.Errorf("umount %s: %v: %s", n.Root, err, out)
		}
	})
}
