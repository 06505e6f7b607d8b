// Package gc finds what pods left behind on the disk.
package gc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/pod"
	"berth/internal/podfile"
)

// Dirs says where pods leave things.
type Dirs struct {
	Pods string // holds a directory for each pod, by UID
	Logs string // holds a directory for each pod, by namespace_name_UID
	// Links holds a link to the log of each container.
	Links string
	// Cgroups lists the cgroups of pods, each named pod and UID.
	Cgroups func() ([]string, error)
}

// List returns the pods that have a directory or a cgroup, whoever they are.
func (d Dirs) List() (map[pod.UID]*pod.Observed, error) {
	out := map[pod.UID]*pod.Observed{}
	cgroups, err := d.Cgroups()
	if err != nil {
		return nil, err
	}
	for _, name := range cgroups {
		if uid, ok := strings.CutPrefix(name, "pod"); ok && uid != "" {
			out[pod.UID(uid)] = &pod.Observed{UID: pod.UID(uid)}
		}
	}
	data, err := subdirectories(d.Pods, maxListed)
	if err != nil {
		return nil, err
	}
	for _, name := range data {
		out[pod.UID(name)] = &pod.Observed{UID: pod.UID(name)}
	}
	logs, err := subdirectories(d.Logs, maxListed)
	if err != nil {
		return nil, err
	}
	for _, name := range logs {
		if parts := strings.Split(name, "_"); len(parts) == 3 { // else it is not ours
			uid := pod.UID(parts[2])
			out[uid] = &pod.Observed{UID: uid, Namespace: parts[0], Name: parts[1]}
		}
	}
	return out, nil
}

// RemoveDeadLinks removes the links to logs of pods that are not there any more.
// Links that lead elsewhere are not ours.
func (d Dirs) RemoveDeadLinks() error {
	err := podfile.Each(d.Links, ".", func(e fs.DirEntry) error {
		link := filepath.Join(d.Links, e.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, d.Logs+"/") {
			return nil //nolint:nilerr // it is not one of our links
		}
		if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
			if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove a dead link to a log: %w", err)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for dead links to logs: %w", err)
	}
	return nil
}

// maxListed is how many directories are looked at in one round. A pod that has the logs of
// the node as a hostPath can make any number; the rest is found when these are gone.
const maxListed = 10_000

func subdirectories(dir string, most int) ([]string, error) {
	var out []string
	err := podfile.Each(dir, ".", func(e fs.DirEntry) error {
		if e.IsDir() {
			out = append(out, e.Name())
		}
		if len(out) == most {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for leftovers of pods: %w", err)
	}
	return out, nil
}
