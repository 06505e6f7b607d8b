package volume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// At queries the kernel about one path. That costs the same however many mounts there are, unlike the
// mount table, which is read only on kernels without statmount(2) (before 6.8). It does not wait for
// the server behind a mount: no attribute is fetched anew.
func (k Kernel) At(path string) (MountPoint, bool, error) {
	for range 3 { // the mount may be replaced between the two calls
		id, mounted, err := mountID(path)
		if err != nil || !mounted {
			return MountPoint{}, false, err
		}
		if id == 0 {
			break
		}
		if fstype, err := mountType(id); err == nil {
			return MountPoint{Path: path, FSType: fstype}, true, nil
		}
	}
	mounts, err := k.Below(filepath.Dir(path))
	if err != nil {
		return MountPoint{}, false, err
	}
	found := MountPoint{Path: path} // without a type, if it is not in the table
	for _, m := range mounts {
		if m.Path == path {
			found = m // the last one is on top
		}
	}
	return found, true, nil
}

// mountID reports whether a path is a mount point, and the ID of the topmost mount on it, or 0 if the
// kernel does not report it. A path that does not exist is no mount point.
func mountID(path string) (id uint64, mounted bool, err error) {
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID_UNIQUE, &st)
	if errors.Is(err, unix.ENOENT) {
		return 0, false, nil
	}
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		err = errors.New("this kernel does not report it; it has to be 5.8 or newer")
	}
	if err != nil {
		return 0, false, fmt.Errorf("is %s a mount point: %w", path, err)
	}
	if st.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		id = st.Mnt_id
	}
	return id, st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// The request and the layout of the answer of statmount(2), see linux/mount.h.
const (
	statmountFSType = 0x20 // STATMOUNT_FS_TYPE

	statmountMask    = 8   // offset of the field mask
	statmountType    = 36  // of fs_type, which is an offset itself, from:
	statmountStrings = 512 // of the strings
)

// mountType returns the file system type of a mount, without touching the file system.
func mountType(id uint64) (string, error) {
	request := struct {
		size, spare uint32
		id, param   uint64
	}{size: 24, id: id, param: statmountFSType}
	var answer [1024]byte
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)), uintptr(unsafe.Pointer(&answer[0])), uintptr(len(answer)), 0, 0, 0)
	if errno != 0 {
		return "", errno
	}
	if binary.NativeEndian.Uint64(answer[statmountMask:])&statmountFSType == 0 {
		return "", errors.New("the kernel does not report the type of a mount")
	}
	at := statmountStrings + uint64(binary.NativeEndian.Uint32(answer[statmountType:]))
	if at >= uint64(len(answer)) {
		return "", errors.New("the kernel reports the type of a mount in an unknown format")
	}
	name, _, _ := bytes.Cut(answer[at:], []byte{0})
	return string(name), nil
}
