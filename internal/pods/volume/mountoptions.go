package volume

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// mountOptions returns the mount options of a persistent volume, each once. Old volumes have them in
// an annotation instead of the field.
func mountOptions(pv *v1.PersistentVolume) []string {
	options := pv.Spec.MountOptions
	if old, ok := pv.Annotations[v1.MountOptionAnnotation]; ok {
		options = strings.Split(old, ",")
	}
	var out []string
	for _, o := range options {
		if o != "" && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// bindAttrs are the mount options that a bind mount can have on its own, with the kernel's flags.
// Those without a flag are the defaults: they can't allow what the mount of the directory forbids.
//
// They hold for the mount below the pod's directory. A runtime mounts that into containers with
// options of its own, and may drop some: runc from 1.2 on keeps those on access times, and read-only
// is passed on through CRI.
var bindAttrs = map[string]unix.MountAttr{
	"ro":          {Attr_set: unix.MOUNT_ATTR_RDONLY},
	"nosuid":      {Attr_set: unix.MOUNT_ATTR_NOSUID},
	"nodev":       {Attr_set: unix.MOUNT_ATTR_NODEV},
	"noexec":      {Attr_set: unix.MOUNT_ATTR_NOEXEC},
	"nosymfollow": {Attr_set: unix.MOUNT_ATTR_NOSYMFOLLOW},
	"nodiratime":  {Attr_set: unix.MOUNT_ATTR_NODIRATIME},
	"noatime":     {Attr_set: unix.MOUNT_ATTR_NOATIME, Attr_clr: unix.MOUNT_ATTR__ATIME},
	"relatime":    {Attr_set: unix.MOUNT_ATTR_RELATIME, Attr_clr: unix.MOUNT_ATTR__ATIME},
	"strictatime": {Attr_set: unix.MOUNT_ATTR_STRICTATIME, Attr_clr: unix.MOUNT_ATTR__ATIME},
	"defaults":    {}, "rw": {}, "suid": {}, "dev": {}, "exec": {}, "symfollow": {}, "diratime": {}, "bind": {},
}

// bindOptions splits options into those that a bind mount can have and those that only a new mount of
// the file system can have.
func bindOptions(options []string) (known, others []string) {
	for _, o := range options {
		if _, ok := bindAttrs[o]; ok {
			known = append(known, o)
		} else {
			others = append(others, o)
		}
	}
	return known, others
}

// bindAttr merges options into one set of kernel flags. Of options that exclude one another the last
// one counts.
func bindAttr(options []string) unix.MountAttr {
	var all unix.MountAttr
	for _, o := range options {
		attr := bindAttrs[o]
		all.Attr_set = all.Attr_set&^attr.Attr_clr | attr.Attr_set
		all.Attr_clr |= attr.Attr_clr
	}
	return all
}
