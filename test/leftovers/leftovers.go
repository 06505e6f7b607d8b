// Package leftovers removes what a machine that was made of namespaces leaves once its processes were killed: the name
// of its network, and its cgroups. Both have the name of the machine.
package leftovers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/test/netns"
)

const (
	// killTimeout is how long the kernel may take to end all processes of a machine.
	killTimeout  = 30 * time.Second
	pollInterval = 50 * time.Millisecond
)

// Remove removes what is left of the machine of that name. Processes of it that stay are an error.
func Remove(machine string) error {
	return errors.Join(removeNetwork(machine), removeCgroups(machine))
}

func removeNetwork(machine string) error {
	network, err := netns.Open(machine)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(killTimeout); ; time.Sleep(pollInterval) {
		pids, err := network.Processes()
		switch {
		case err != nil:
			return err
		case len(pids) == 0:
			return network.Remove()
		case time.Now().After(deadline):
			return fmt.Errorf("processes %v of machine %s are left", pids, machine)
		}
	}
}

func removeCgroups(machine string) error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/" + machine)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(killTimeout); ; time.Sleep(pollInterval) {
		var left error
		for _, root := range roots {
			left = errors.Join(left, removeTree(root))
		}
		switch {
		case left == nil:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("processes are left in cgroups of machine %s: %w", machine, left)
		}
	}
}

// removeTree removes a cgroup and those below it, none of which has a process.
func removeTree(root string) error {
	var cgroups []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			cgroups = append(cgroups, path)
		}
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, cgroup := range slices.Backward(cgroups) {
		err = errors.Join(err, os.Remove(cgroup))
	}
	return err
}
