// Package gc finds what pods left behind on the disk.
package gc

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"berth/internal/pod"
)

// Dirs says where pods leave things.
type Dirs struct {
	Pods string // holds a directory for each pod, by UID
	Logs string // holds a directory for each pod, by namespace_name_UID
}

// List returns the pods that have a directory, whoever they are.
func (d Dirs) List() (map[pod.UID]*pod.Observed, error) {
	out := map[pod.UID]*pod.Observed{}
	data, err := subdirectories(d.Pods)
	if err != nil {
		return nil, err
	}
	for _, name := range data {
		out[pod.UID(name)] = &pod.Observed{UID: pod.UID(name)}
	}
	logs, err := subdirectories(d.Logs)
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

func subdirectories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for leftovers of pods: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Mounted returns the first mount at or below dir, or "" if there is none. What
// is behind a mount is somebody's data, and must not go with the directory.
func Mounted(dir string) (string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("read the table of mounts: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			if at := fields[4]; at == dir || strings.HasPrefix(at, dir+"/") {
				return at, nil
			}
		}
	}
	return "", nil
}
