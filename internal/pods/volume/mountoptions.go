package volume

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// mountOptions are those that a persistent volume asks for, each once. An annotation says
// them for volumes that were made when there was no field for it.
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

// bindAttrs are the options that a single place can have where a file system is shown, as
// the kernel names them. Those without a value allow what is allowed anyway: what the
// machine does not allow in a directory, no volume allows there.
//
// They hold where the pod has its volume. A runtime shows that to containers with options
// of its own, and may drop some: runc from 1.2 on keeps those about times, and we tell it
// what is read-only.
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

// bindOptions tells those options that a place can have from those that only mean
// something to a file system when it is mounted for the first time.
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

// bindAttr is all of the options in the kernel's words. Of those that exclude one another
// the last one counts.
func bindAttr(options []string) unix.MountAttr {
	var all unix.MountAttr
	for _, o := range options {
		attr := bindAttrs[o]
		all.Attr_set = all.Attr_set&^attr.Attr_clr | attr.Attr_set
		all.Attr_clr |= attr.Attr_clr
	}
	return all
}
