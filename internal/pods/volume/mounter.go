package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/host/mounts"
	"berth/internal/host/proc"
)

// MountPoint is a mount: its path and its file system type.
type MountPoint struct {
	Path   string
	FSType string
}

// Mounter is the interface to the kernel's mounts.
type Mounter interface {
	// Mount mounts a new file system in memory (tmpfs, hugetlbfs) on a directory. swaps says that the
	// kernel may swap it out to a disk.
	Mount(fstype, dir, options string) (swaps bool, err error)
	// MountRemote mounts a network file system. It fails when the context ends.
	MountRemote(ctx context.Context, fstype, source, dir string, options []string) error
	// Bind mounts the file or directory behind an open handle on a path, too, without the mounts below
	// it. The options are those of bindOptions.
	Bind(f *os.File, path string, options []string) error
	// Unmount unmounts the topmost mount of a path. A mount that is in use stays: there is no lazy
	// unmount.
	Unmount(ctx context.Context, m MountPoint) error
	// IsMount reports whether a path is a mount point. One that does not exist is none.
	IsMount(path string) (bool, error)
	// At returns the topmost mount on a path, and whether there is one. It does not read the mount
	// table.
	At(path string) (MountPoint, bool, error)
	// BlockDevice returns the path of a block device with symbolic links resolved.
	BlockDevice(path string) (string, error)
	// Below lists the mounts below a directory, the deepest first. It reads the whole mount table, so
	// it is for rare cases only, not for each pod.
	Below(dir string) ([]MountPoint, error)
}

// Kernel is the Mounter that makes system calls and runs mount helpers.
type Kernel struct {
	// Unmounter is a command to which a path is appended, and that exits with the result of
	// UnmountNow: this program, in a process of its own.
	Unmounter []string
}

func (Kernel) Mount(fstype, dir, options string) (swaps bool, err error) {
	if fstype == "tmpfs" {
		// Swapped memory is on a disk. Kernels before 6.4 don't know noswap.
		err := unix.Mount(fstype, dir, fstype, 0, options+",noswap")
		if err == nil {
			return false, nil
		}
		table, _ := os.ReadFile("/proc/swaps") // a kernel without it can't swap
		swaps = bytes.Count(bytes.TrimSpace(table), []byte("\n")) > 0
	}
	return swaps, unix.Mount(fstype, dir, fstype, 0, options)
}

func (Kernel) Bind(f *os.File, path string, options []string) error {
	tree, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("clone the mount: %w", err)
	}
	defer unix.Close(tree) //nolint:errcheck // the mount is in its place, or gone with it
	// Set before the mount is attached, so that it never appears without its options.
	if attr := bindAttr(options); attr != (unix.MountAttr{}) {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return fmt.Errorf("set the mount options %s (kernel 5.12 or newer has them): %w", strings.Join(options, ","), err)
		}
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// unmountTimeout is how long the kernel may take to unmount one mount.
const unmountTimeout = 10 * time.Second

// localFilesystems are file systems in memory and on disks. Their unmount returns at once, or waits
// for a disk that no signal would interrupt.
var localFilesystems = []string{"tmpfs", "hugetlbfs", "ramfs", "ext2", "ext3", "ext4", "xfs", "btrfs"}

// Unmount runs another process for all but local file systems: the unmount may wait for a server that
// does not answer, and the process is killed after a timeout. It is not umount(8): that of busybox
// stats the mount, which hangs as well, and follows a symbolic link that a container may have put
// there.
func (k Kernel) Unmount(ctx context.Context, m MountPoint) error {
	if slices.Contains(localFilesystems, m.FSType) {
		return unix.Unmount(m.Path, unix.UMOUNT_NOFOLLOW)
	}
	if len(k.Unmounter) == 0 {
		return errors.New("there is no program that unmounts")
	}
	ctx, cancel := context.WithTimeout(ctx, unmountTimeout)
	defer cancel()
	err := helper(ctx, "umount", append(slices.Clone(k.Unmounter), m.Path))
	var ended *helperError
	if errors.As(err, &ended) && ended.code > 0 && ended.stderr == "" {
		return unix.Errno(ended.code)
	}
	return err
}

// UnmountNow unmounts the topmost mount of a path. It returns the errno, or 0, as an exit code.
func UnmountNow(path string) int {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	var number unix.Errno
	errors.As(err, &number) // unmount(2) returns no other type
	return int(number)
}

// MountRemote runs the mount helper of the file system (mount.nfs), which is killed if the server does
// not answer. It does not run mount(8): that of busybox tries the system call first, and does not pass
// on all options.
func (Kernel) MountRemote(ctx context.Context, fstype, source, dir string, options []string) error {
	return mountRemote(ctx, helperDirs, fstype, source, dir, options)
}

func mountRemote(ctx context.Context, helpers []string, fstype, source, dir string, options []string) error {
	for _, in := range helpers {
		program := filepath.Join(in, "mount."+fstype)
		if _, err := os.Stat(program); err != nil {
			continue
		}
		args := []string{program, source, dir}
		// Options with this prefix are for user space: the helper would send them to the server.
		options = slices.DeleteFunc(slices.Clone(options), func(o string) bool { return strings.HasPrefix(strings.ToLower(o), "x-") })
		if len(options) > 0 {
			args = append(args, "-o", strings.Join(options, ","))
		}
		return helper(ctx, filepath.Base(program), args)
	}
	return errNoHelper
}

// helperDirs are the directories in which mount(8) looks for mount helpers.
var helperDirs = []string{"/sbin", "/usr/sbin", "/sbin/fs.d", "/sbin/fs"}

// helper runs a program that is killed with its children when the context ends: a child that went on
// alone would mount a volume that is not wanted any more.
func helper(ctx context.Context, name string, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	proc.SetProcessGroup(cmd)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end: %w", name, ctx.Err())
	case errors.As(err, &exit):
		text, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return &helperError{code: exit.ExitCode(), stderr: text}
	default:
		return err
	}
}

// helperError is the exit code and the error output of a program that failed.
type helperError struct {
	code   int
	stderr string
}

func (e *helperError) Error() string { return fmt.Sprintf("exit status %d: %s", e.code, e.stderr) }

func (Kernel) IsMount(path string) (bool, error) {
	_, mounted, err := mountID(path)
	return mounted, err
}

func (Kernel) BlockDevice(path string) (string, error) {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(at)
	if err != nil {
		return "", err
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return "", fmt.Errorf("%s is not a block device", path)
	}
	return at, nil
}

func (Kernel) Below(dir string) ([]MountPoint, error) {
	table, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	below := table.Below(dir)
	out := make([]MountPoint, 0, len(below))
	for _, m := range below {
		out = append(out, MountPoint{Path: m.Mountpoint, FSType: m.FSType})
	}
	return out, nil
}
