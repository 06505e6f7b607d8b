package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
)

// Teardown unmounts and removes the volumes of a pod whose containers are gone. It may be called
// again, and for a pod that the Manager does not know. Nothing is removed while any volume is mounted,
// and nothing is ever removed behind a mount point.
//
// It checks the paths at which volumes of a pod are mounted, and does not read the mount table: that
// has thousands of lines for all pods. The table is read only if something is mounted elsewhere, which
// a container can do in its volumes.
func (m *Manager) Teardown(ctx context.Context, uid pod.UID) error {
	if _, err := m.podDir(uid); err != nil {
		return err
	}
	m.guard.abandon(uid)
	_, err := guarded(ctx, m.guard, uid, func(ctx context.Context, t *task) (struct{}, error) {
		err := m.teardown(ctx, t, uid)
		if err == nil {
			m.enqueueWaiting(ctx, uid)
		}
		return struct{}{}, err
	})
	return err
}

func (m *Manager) teardown(ctx context.Context, t *task, uid pod.UID) error {
	m.deletePlaces(uid)
	m.stopWaiting(uid)
	m.cfg.CSI.Forget(uid)
	if m.cfg.Expander != nil {
		m.cfg.Expander.Forget(uid)
	}
	if m.cfg.Certificates != nil {
		m.cfg.Certificates.Forget(uid)
	}
	pods, err := openDir(m.cfg.PodsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer pods.Close()
	dir, err := podfile.OpenIn(pods, string(uid), unix.O_RDONLY|unix.O_DIRECTORY, podfile.NoLinksNoMounts)
	if errors.Is(err, fs.ErrNotExist) {
		m.holders.podDirGone(uid)
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	// SubPaths first: they keep their volumes busy. Then the CSI drivers, which know what is behind
	// their mounts.
	if err := m.unmountToDepth(ctx, t, pods, filepath.Join(dir.Name(), subPathsDir), subPathDepth); err != nil {
		return err
	}
	if err := m.unmountCSI(ctx, t, uid, dir); err != nil {
		return err
	}
	if err := m.unmountToDepth(ctx, t, pods, filepath.Join(dir.Name(), volumesDir), volumeDepth); err != nil {
		return err
	}
	for _, part := range []string{subPathsDir, volumesDir, sourcesDir} {
		path := filepath.Join(dir.Name(), part)
		t.setStep("remove " + path)
		remove := func() error { return podfile.RemoveTree(dir, part) }
		if part == sourcesDir {
			files := remove
			remove = func() error { return m.holders.change(files, func() { m.holders.forgetPod(uid) }) }
		}
		err := remove()
		if errors.Is(err, podfile.ErrMountPoint) || errors.Is(err, unix.EBUSY) {
			if err = m.unmountListed(ctx, t, pods, path, anyPath); err == nil {
				t.setStep("remove " + path)
				err = remove()
			}
		}
		if err != nil {
			return err
		}
	}
	m.clearStuck(dir.Name())
	return nil
}

// The depth of mount points below volumes/ (kind, name) and volume-subpaths/ (volume, container,
// number).
const (
	volumeDepth  = 2
	subPathDepth = 3
)

// unmountToDepth unmounts all mount points in a directory down to a depth. If one is busy because of
// mounts below it, all mounts in the mount table go, the deepest first.
func (m *Manager) unmountToDepth(ctx context.Context, t *task, pods *os.File, path string, depth int) error {
	err := m.unmountLevel(ctx, t, pods, path, depth)
	if errors.Is(err, errInUse) {
		return m.unmountListed(ctx, t, pods, path, anyPath)
	}
	return err
}

func (m *Manager) unmountLevel(ctx context.Context, t *task, pods *os.File, path string, depth int) error {
	rel, err := filepath.Rel(pods.Name(), path)
	if err != nil {
		return err
	}
	dir, err := podfile.OpenIn(pods, rel, unix.O_RDONLY|unix.O_DIRECTORY, podfile.NoLinksNoMounts)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // a subPath may be a file
		return nil
	}
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	var errs []error
	for _, name := range names {
		at := filepath.Join(path, name)
		err := m.unmountAt(ctx, t.setStep, at)
		if err == nil && depth > 1 {
			err = m.unmountLevel(ctx, t, pods, at, depth-1)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unmountAt unmounts all mounts that are stacked on one path.
func (m *Manager) unmountAt(ctx context.Context, onStep func(string), path string) error {
	for range unmountRounds {
		at, mounted, err := m.cfg.Mounter.At(path)
		if err != nil || !mounted {
			return err
		}
		onStep("unmount " + path)
		if err := m.unmount(ctx, at); err != nil {
			return err
		}
	}
	return fmt.Errorf("unmount %s: new mounts keep appearing", path)
}

// unmountRounds is the number of attempts to find mounts that were hidden by others.
const unmountRounds = 10

// clearStuck forgets the failed unmounts in a directory, after all have succeeded.
func (m *Manager) clearStuck(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.stuck, func(at string, _ time.Time) bool { return strings.HasPrefix(at, dir+"/") })
}

// anyPath selects all mount points.
func anyPath(string) bool { return true }

// unmountListed unmounts the selected mounts below a directory that are in the mount table. It reads
// the table again until there are none, since a mount may hide another one on the same path.
func (m *Manager) unmountListed(ctx context.Context, t *task, pods *os.File, dir string, meant func(path string) bool) error {
	for range unmountRounds {
		mounts, err := m.cfg.Mounter.Below(dir)
		if err != nil {
			return err
		}
		mounts = slices.DeleteFunc(mounts, func(at MountPoint) bool { return !meant(at.Path) })
		if len(mounts) == 0 {
			return nil
		}
		var errs []error
		for _, at := range mounts {
			t.setStep("unmount " + at.Path)
			if err := checkNoSymlinks(pods, at.Path); err != nil {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, m.unmount(ctx, at))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return fmt.Errorf("unmount below %s: new mounts keep appearing", dir)
}

// checkNoSymlinks returns an error if the path of a mount point has a symbolic link in it: a container
// may have made one since the mount table was read.
func checkNoSymlinks(pods *os.File, path string) error {
	rel, err := filepath.Rel(pods.Name(), filepath.Dir(path))
	if err != nil {
		return err
	}
	parent, err := podfile.OpenIn(pods, rel, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return fmt.Errorf("unmount %s: the way to it has changed: %w", path, err)
	}
	parent.Close()
	return nil
}

var errInUse = errors.New("it is in use")

// unmount unmounts a mount. The error says since when it fails, so that its text stays the same.
func (m *Manager) unmount(ctx context.Context, at MountPoint) error {
	began := time.Now()
	err := m.cfg.Mounter.Unmount(ctx, at)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.stuck, at.Path)
		return nil
	}
	since, ok := m.stuck[at.Path]
	if !ok {
		since = began
		m.stuck[at.Path] = began
	}
	if errors.Is(err, unix.EBUSY) {
		err = errInUse
	}
	return fmt.Errorf("unmount %s (%s), since %s: %w", at.Path, at.FSType, timestamp(since), err)
}
