package doctor

import (
	"fmt"
	"path/filepath"
	"strings"
)

// checkRootDir looks at the file system that holds images and containers.
func checkRootDir(m *Machine) Finding {
	fstype := "unknown"
	if on := m.mounts().Under(m.BerthRoot); on != nil {
		fstype = on.FSType
	}
	where := fmt.Sprintf("%s is on %s", m.BerthRoot, fstype)
	switch fstype {
	case "overlay":
		return fail(where+", which can't hold the layers of images", "give berth a folder on a disk: --root-dir /DISK/berth")
	case "nfs", "nfs4", "cifs", "9p", "vfat", "fuse.sshfs":
		return fail(where+", which can't hold the layers of images", "give berth a folder on a local disk: --root-dir /DISK/berth")
	case "tmpfs", "ramfs":
		return warn(where+": images and pods are gone after a reboot", "give berth a folder on a disk: --root-dir /DISK/berth")
	}
	return ok(where)
}

const (
	gibibyte = 1 << 30

	leastFree, lowFree          = gibibyte, 5 * gibibyte
	leastShare, lowShare        = 2, 10 // percent
	leastInodes          uint64 = 10_000
)

func checkSpace(m *Machine) Finding {
	if m.Space == nil {
		return Finding{}
	}
	dir := m.BerthRoot
	s, err := m.Space(dir)
	for err != nil && dir != "/" { // it may not be there yet
		dir = filepath.Dir(dir)
		s, err = m.Space(dir)
	}
	if err != nil || s.Total == 0 {
		return warn(fmt.Sprintf("how much is free in %s can't be read: %v", dir, err), "df -h "+dir)
	}
	share := s.Free * 100 / s.Total
	found := fmt.Sprintf("%.1f GiB are free in %s (%d%%)", float64(s.Free)/gibibyte, dir, share)
	remedy := fmt.Sprintf("make room: 'du -xsh %s/*' shows what is large", dir)
	switch {
	case s.Free < leastFree || share < leastShare:
		return fail(found, remedy)
	case s.TotalInodes > 0 && s.FreeInodes < leastInodes:
		return fail(fmt.Sprintf("%d inodes are free in %s", s.FreeInodes, dir), "remove small files: 'df -i' shows where they are")
	case s.Free < lowFree || share < lowShare:
		return warn(found, remedy)
	}
	return ok(found)
}

// programs are what the bundled runtime is made of.
func programs() []string {
	return []string{
		"containerd", "containerd-shim-runc-v2", "runc", "pause",
		"cni/bridge", "cni/host-local", "cni/portmap", "cni/bandwidth",
	}
}

func checkPrograms(m *Machine) Finding {
	if m.Endpoint != "" {
		return ok("not needed: the container runtime is at " + m.Endpoint)
	}
	var missing []string
	for _, p := range programs() {
		if !m.exists(filepath.Join(m.Libexec, p)) {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return ok("all are in " + m.Libexec)
	}
	return fail(fmt.Sprintf("%s has no %s", m.Libexec, strings.Join(missing, ", ")),
		"build them with 'make build', or name a runtime: berth run --container-runtime-endpoint unix:///run/containerd/containerd.sock")
}
