// Package cgroupname translates the names of cgroups for the cgroup drivers of container runtimes.
//
// A cgroup has one name, whatever the driver is: its components from the top, as in
// /kubepods/burstable/pod12-ab. Its path in the hierarchies of the kernel depends on the driver:
//
//	cgroupfs  /kubepods/burstable/pod12-ab
//	systemd   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_ab.slice
//
// The name of a slice holds those of all slices above it, joined by "-". A "-" within a component is written as "_",
// and the "_" of a pod's UID as "\x5f", so that UIDs can be read from slices.
package cgroupname

import (
	"fmt"
	"path"
	"strings"
)

// Driver is the cgroup driver of a container runtime: cgroups are made by writing to the kernel's file
// system, or by systemd.
type Driver string

const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

const (
	sliceSuffix = ".slice"
	podPrefix   = "pod"
	escaped     = `\x5f`
)

// Parse returns the driver of that name.
func Parse(name string) (Driver, error) {
	if d := Driver(name); d == Cgroupfs || d == Systemd {
		return d, nil
	}
	return "", fmt.Errorf("%q is no cgroup driver: want %s or %s", name, Cgroupfs, Systemd)
}

// Path returns the path of a cgroup in the hierarchies of the kernel.
func (d Driver) Path(name string) string {
	name = path.Clean("/" + name)
	if d != Systemd || name == "/" {
		return name
	}
	var out, prefix string
	for component := range strings.SplitSeq(name[1:], "/") {
		prefix += escape(component)
		out += "/" + prefix + sliceSuffix
		prefix += "-"
	}
	return out
}

// Slice returns the name that systemd has for the slice of a cgroup. With cgroupfs, it is the path of the cgroup.
func (d Driver) Slice(name string) string {
	if d != Systemd {
		return d.Path(name)
	}
	return path.Base(d.Path(name))
}

// Child returns the last component of the name of the cgroup in directory dir below the cgroup parent. It returns ""
// for a directory that the driver does not make.
func (d Driver) Child(parent, dir string) string {
	if d != Systemd {
		return dir
	}
	prefix := strings.TrimSuffix(d.Slice(parent), sliceSuffix) + "-"
	if path.Clean("/"+parent) == "/" {
		prefix = ""
	}
	component, ok := strings.CutPrefix(dir, prefix)
	if !ok || !strings.HasSuffix(component, sliceSuffix) || strings.Contains(component, "-") {
		return ""
	}
	return unescape(strings.TrimSuffix(component, sliceSuffix))
}

// Name returns the name of a cgroup that an administrator configured. With systemd, only the last component of the
// path counts, as for the kubelet: it is the name of a slice, with or without its suffix.
func (d Driver) Name(given string) string {
	if d != Systemd {
		return path.Clean("/" + given)
	}
	var out string
	for component := range strings.SplitSeq(strings.TrimSuffix(path.Base(given), sliceSuffix), "-") {
		out += "/" + unescape(component)
	}
	return path.Clean("/" + out)
}

func escape(component string) string {
	if strings.HasPrefix(component, podPrefix) {
		component = strings.ReplaceAll(component, "_", escaped)
	}
	return strings.ReplaceAll(component, "-", "_")
}

func unescape(component string) string {
	return strings.ReplaceAll(strings.ReplaceAll(component, "_", "-"), escaped, "_")
}
