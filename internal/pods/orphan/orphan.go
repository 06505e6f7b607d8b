// Package orphan finds the directories, logs and cgroups of pods, also of pods that are gone.
package orphan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/host/roots"
	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
)

// Dirs are the places where pods leave files.
type Dirs struct {
	// Owner has the log directory of this root, with a directory namespace_name_UID for each pod.
	Owner roots.Owner
	Pods  string // holds a directory for each pod, by UID
	// Links holds a symbolic link to the log of each container. Other programs may have links in it,
	// too.
	Links   string
	Cgroups Cgroups
}

// Cgroups lists the cgroups of pods, each named pod<UID>.
type Cgroups interface {
	List() ([]string, error)
	// Occupied reports whether a cgroup has processes.
	Occupied(name string) (bool, error)
}

// List returns all pods that have a directory, logs or a cgroup.
func (d Dirs) List() (map[pod.UID]*pod.Observed, error) {
	out := map[pod.UID]*pod.Observed{}
	data, err := subdirectories(d.Pods, maxListed, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, name := range data {
		out[pod.UID(name)] = &pod.Observed{UID: pod.UID(name)}
	}
	if err := d.addCgroups(out); err != nil {
		return nil, err
	}
	if d.Owner.LogsDir() == "" {
		return out, nil
	}
	logs, err := subdirectories(d.Owner.LogsDir(), maxListed, func(name string) bool { return podOfLogs(name) != nil })
	if err != nil {
		return nil, err
	}
	for _, name := range logs {
		o := podOfLogs(name)
		out[o.UID] = o
	}
	return out, nil
}

// podOfLogs returns the pod whose logs are in a directory of that name, or nil if that is
// not ours. A UID that can't name a directory is that of no pod.
func podOfLogs(name string) *pod.Observed {
	parts := strings.Split(name, "_")
	if len(parts) != 3 || parts[2] == "" || parts[2] == "." || parts[2] == ".." {
		return nil
	}
	return &pod.Observed{UID: pod.UID(parts[2]), Namespace: parts[0], Name: parts[1]}
}

// addCgroups adds the pods of which nothing but a cgroup is left. A pod of this agent gets its
// directory before its first process: a cgroup with processes, but without the directory, belongs to
// another program, whatever its name.
func (d Dirs) addCgroups(to map[pod.UID]*pod.Observed) error {
	cgroups, err := d.Cgroups.List()
	if err != nil {
		return err
	}
	for _, name := range cgroups {
		uid, ok := strings.CutPrefix(name, "pod")
		if !ok || uid == "" || to[pod.UID(uid)] != nil {
			continue
		}
		occupied, err := d.Cgroups.Occupied(name)
		if err != nil {
			return err
		}
		if !occupied {
			to[pod.UID(uid)] = &pod.Observed{UID: pod.UID(uid)}
		}
	}
	return nil
}

// RemoveDeadLinks removes the links to logs of this root that do not exist any more.
func (d Dirs) RemoveDeadLinks() error {
	logs := d.Owner.LogsDir()
	if logs == "" {
		return nil
	}
	err := podfile.Each(d.Links, ".", func(e fs.DirEntry) error {
		link := filepath.Join(d.Links, e.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, logs+"/") {
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

// maxListed is how many directories of pods are listed in one round. A pod that has the logs of
// the node as a hostPath can make any number; the rest is found when these are gone.
const maxListed = 10_000

func subdirectories(dir string, most int, ofPod func(name string) bool) ([]string, error) {
	var out []string
	err := podfile.Each(dir, ".", func(e fs.DirEntry) error {
		if e.IsDir() && ofPod(e.Name()) {
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
