package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/test/netns"
)

// ErrInUse is the error if the lab of a living process is in the folder.
var ErrInUse = errors.New("another cluster runs there")

// Clear takes down what is left of a lab that was killed, and removes its folder. Of
// c only name, folder and programs are needed. It is no error if there is no lab.
//
// The programs of the plane and the agents died with the process that started them. Pods and
// their runtimes did not: that is what berth is for.
func Clear(c Config) error {
	if !Is(c.Dir) {
		return nil
	}
	lock, err := takeLock(c.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == planeDir {
			continue
		}
		if err := clearNode(NamespaceOf(c.Name, entry.Name()), filepath.Join(c.Programs, "berth"), filepath.Join(c.Dir, entry.Name())); err != nil {
			return fmt.Errorf("take down what is left of node %s: %w", entry.Name(), err)
		}
	}
	if err := dropNamespace(c.Name); err != nil {
		return err
	}
	return os.RemoveAll(c.Dir)
}

func clearNode(namespace, program, root string) error {
	ns, err := netns.Open(namespace)
	if errors.Is(err, os.ErrNotExist) {
		ns, err = netns.New(namespace) // for what is on the disk, and has no network any more
	}
	if err != nil {
		return err
	}
	if err := down(ns, program, root); err != nil {
		ns.Close()
		return err
	}
	return errors.Join(dropDisk(root), ns.Remove())
}

func dropNamespace(name string) error {
	ns, err := netns.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return ns.Remove()
}

// takeLock makes a folder ours. The kernel gives the lock back when we die.
func takeLock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("folder %s: %w", dir, ErrInUse)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Is reports whether a lab is, or was, in a folder.
func Is(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, planeDir))
	return err == nil
}
