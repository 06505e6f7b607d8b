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

// MountPoint is a line of the mount table.
type MountPoint struct {
	Path   string
	FSType string
}

// Mounter is what volumes need of the kernel's mounts.
type Mounter interface {
	// Mount puts a new file system in memory (tmpfs, hugetlbfs) on a directory. It tells
	// whether the kernel may swap it out to a disk nevertheless.
	Mount(fstype, dir, options string) (swaps bool, err error)
	// MountRemote mounts the file system of another machine. It gives up with the context.
	MountRemote(ctx context.Context, fstype, source, dir string, options []string) error
	// Bind shows what f is an open handle of at a path, too: a file or a directory of
	// ours. What is mounted below it is not shown. The options are those of bindOptions.
	Bind(f *os.File, path string, options []string) error
	// Unmount takes the topmost mount away from a path. It never gives up data: a mount
	// that is in use stays.
	Unmount(ctx context.Context, m MountPoint) error
	// IsMount tells whether something is mounted on a path. One that is not there has
	// nothing on it.
	IsMount(path string) (bool, error)
	// At returns the topmost mount on a path, and whether there is one. It costs the same
	// however many mounts there are elsewhere.
	At(path string) (MountPoint, bool, error)
	// BlockDevice returns the device to which a path leads, without symbolic links.
	BlockDevice(path string) (string, error)
	// Below lists what is mounted below a directory, the deepest first. It reads all mounts
	// of the machine: whoever needs it only now and then, or for a pod that is odd, may.
	Below(dir string) ([]MountPoint, error)
}

// Kernel is the Mounter of this machine.
type Kernel struct {
	// Unmounter is a command that calls UnmountNow with one more argument, a path, and ends
	// with what that returns: this program, in a process of its own.
	Unmounter []string
}

func (Kernel) Mount(fstype, dir, options string) (swaps bool, err error) {
	if fstype == "tmpfs" {
		// Memory that is swapped out is on a disk. Kernels before 6.4 don't know the word.
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
	// Before it is in its place: nobody finds it half done, not even after a crash.
	if attr := bindAttr(options); attr != (unix.MountAttr{}) {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return fmt.Errorf("set the mount options %s (kernel 5.12 or newer has them): %w", strings.Join(options, ","), err)
		}
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// unmountTimeout is how long the kernel may take for one mount.
const unmountTimeout = 10 * time.Second

// localFilesystems are file systems in memory and on disks. Who unmounts one is done at once,
// or waits for a disk, and then nobody can end that.
var localFilesystems = []string{"tmpfs", "hugetlbfs", "ramfs", "ext2", "ext3", "ext4", "xfs", "btrfs"}

// Unmount of anything else may wait for somebody who does not answer. So another process
// does it, which is killed when it takes too long. It is not umount(8): that of busybox
// looks at what it unmounts, which hangs as well, and follows a symbolic link that a
// container may have put there.
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
	if errors.As(err, &ended) && ended.code > 0 && ended.said == "" {
		return unix.Errno(ended.code)
	}
	return err
}

// UnmountNow takes the topmost mount away from a path. It returns the number of the
// error, or 0, which a process can end with.
func UnmountNow(path string) int {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	var number unix.Errno
	errors.As(err, &number) // it is nothing else
	return int(number)
}

// MountRemote is done by a program, too: a server that does not answer keeps the one who
// asks. It is the one that mount(8) would ask. That of busybox does not ask it before it has
// tried by itself, and then not for all options.
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
		// What begins so is for other programs: nobody asks a server for it.
		options = slices.DeleteFunc(slices.Clone(options), func(o string) bool { return strings.HasPrefix(strings.ToLower(o), "x-") })
		if len(options) > 0 {
			args = append(args, "-o", strings.Join(options, ","))
		}
		return helper(ctx, filepath.Base(program), args)
	}
	return errNoHelper
}

// helperDirs are where mount(8) looks for those who know a file system.
var helperDirs = []string{"/sbin", "/usr/sbin", "/sbin/fs.d", "/sbin/fs"}

// helper runs a program that is killed when the context ends, with those that it has
// started: mount(8) only waits for the one that knows the file system, which would go on
// alone, and mount what nobody wants any more.
func helper(ctx context.Context, name string, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	proc.InGroup(cmd)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end: %w", name, ctx.Err())
	case errors.As(err, &exit):
		text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return &helperError{code: exit.ExitCode(), said: text}
	default:
		return err
	}
}

// helperError is how a program ended that failed.
type helperError struct {
	code int
	said string
}

func (e *helperError) Error() string { return fmt.Sprintf("exit status %d: %s", e.code, e.said) }

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
