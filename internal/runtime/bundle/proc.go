package bundle

import (
	"path/filepath"

	"berth/internal/host/proc"
)

// isContainerd reports whether a process of this machine, not of a container, is the
// containerd of this root: it runs the bundled program, or an older one that an upgrade
// replaced, with the configuration file of this root.
func (p paths) isContainerd(i proc.Info) bool {
	if !i.Own || filepath.Base(i.Exe) != filepath.Base(p.containerd) || !hasFlag(i.Args, "--config", p.config) {
		return false
	}
	bundled, err := proc.FileOf(p.containerd)
	return i.Replaced || err == nil && i.File == bundled
}

// isShim reports whether a process of this machine, not of a container, is a shim of the
// containerd of this root. Shims are as old as their pods, and no record is kept of them: the
// file may be that of any version.
func (p paths) isShim(i proc.Info) bool {
	return i.Own && filepath.Base(i.Exe) == filepath.Base(p.shim) && hasFlag(i.Args, "-address", p.socket)
}

func hasFlag(args []string, name, value string) bool {
	for i := 1; i < len(args)-1; i++ {
		if args[i] == name && args[i+1] == value {
			return true
		}
	}
	return false
}
