package volume

import (
	"bytes"
	"cmp"
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

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// MountPoint is a line of the mount table.
type MountPoint struct {
	Path   string
	FSType string
}

// Mounter is what volumes need of the kernel's mounts.
type Mounter interface {
	// Mount puts a new file system in memory (tmpfs, hugetlbfs) on a directory.
	Mount(fstype, dir, options string) error
	// MountRemote mounts the file system of another machine. It gives up with the context.
	MountRemote(ctx context.Context, fstype, source, dir string, options []string) error
	// Bind shows what f is an open handle of at a path, too: a file or a directory of
	// ours. What is mounted below it is not shown.
	Bind(f *os.File, path string) error
	// Unmount takes the topmost mount away from a path. It never gives up data: a mount
	// that is in use stays.
	Unmount(ctx context.Context, m MountPoint) error
	// IsMount tells whether something is mounted on a path. One that is not there has
	// nothing on it.
	IsMount(path string) (bool, error)
	// BlockDevice returns the device to which a path leads, without symbolic links.
	BlockDevice(path string) (string, error)
	// Below lists what is mounted below a directory, the deepest first.
	Below(dir string) ([]MountPoint, error)
}

// Kernel is the Mounter of this machine.
type Kernel struct{}

func (Kernel) Mount(fstype, dir, options string) error {
	if fstype == "tmpfs" {
		// Memory that is swapped out is on a disk. Kernels before 6.4 don't know the word.
		err := unix.Mount(fstype, dir, fstype, 0, options+",noswap")
		if err == nil {
			return nil
		}
	}
	return unix.Mount(fstype, dir, fstype, 0, options)
}

func (Kernel) Bind(f *os.File, path string) error {
	tree, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("clone the mount: %w", err)
	}
	defer unix.Close(tree) //nolint:errcheck // the mount is in its place, or gone with it
	return unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// unmountLimit is how long the kernel may take for one mount.
const unmountLimit = 10 * time.Second

// Unmount of what is in memory only can't hang. Of anything else it can: so a
// program does it, which is killed when it takes too long.
func (Kernel) Unmount(ctx context.Context, m MountPoint) error {
	if m.FSType == "tmpfs" || m.FSType == "hugetlbfs" {
		return unix.Unmount(m.Path, unix.UMOUNT_NOFOLLOW)
	}
	ctx, cancel := context.WithTimeout(ctx, unmountLimit)
	defer cancel()
	// No looking at the path, no helper programs, no notes in /etc/mtab.
	return helper(ctx, "umount", "--no-canonicalize", "--internal-only", "--no-mtab", m.Path)
}

// MountRemote is done by a program, too: a server that does not answer keeps the one
// who asks.
func (Kernel) MountRemote(ctx context.Context, fstype, source, dir string, options []string) error {
	for _, in := range helperDirs {
		if _, err := os.Stat(filepath.Join(in, "mount."+fstype)); err == nil {
			args := []string{"-t", fstype}
			if len(options) > 0 {
				args = append(args, "-o", strings.Join(options, ","))
			}
			return helper(ctx, "mount", append(args, "--", source, dir)...)
		}
	}
	return errNoHelper
}

// helperDirs are where mount(8) looks for those who know a file system.
var helperDirs = []string{"/sbin", "/usr/sbin", "/sbin/fs.d", "/sbin/fs"}

// helper runs a program that is killed when the context ends.
func helper(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end: %w", name, ctx.Err())
	default:
		text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%w: %s", err, text)
	}
}

func (Kernel) IsMount(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		err = errors.New("this kernel can't tell; it has to be 5.8 or newer")
	}
	if err != nil {
		return false, fmt.Errorf("is %s a mount point: %w", path, err)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
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
	infos, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(i.Mountpoint, dir+"/"), false
	})
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	out := make([]MountPoint, 0, len(infos))
	for _, i := range infos {
		out = append(out, MountPoint{Path: i.Mountpoint, FSType: i.FSType})
	}
	slices.SortStableFunc(out, func(a, b MountPoint) int {
		return cmp.Compare(strings.Count(b.Path, "/"), strings.Count(a.Path, "/"))
	})
	return out, nil
}
