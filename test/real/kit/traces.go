//go:build real

package kit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/lib/pod"
)

// Traces are things that pods and a runtime could leave on the machine, by kind.
type Traces map[string][]string

// Traces lists the traces of a node: all that has in its name the name of the node, or one of the IDs
// that its runtime gave out.
func (n *Node) Traces(ids []string) Traces {
	n.T.Helper()
	ours := func(text string) bool {
		return strings.Contains(text, n.UniqueName) || slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) })
	}
	seen := Traces{
		"mounts":  Filter(n.MountTable(), ours),
		"cgroups": Filter(Walk(n, "/sys/fs/cgroup"), ours),
		"network": Lines(n.MustRun(n.T, "ip", "-oneline", "link", "show")),
		"routes":  Lines(n.MustRun(n.T, "ip", "route", "show", "table", "all")),
		// The CNI library remembers what it did there.
		"cni results": Filter(Walk(n, "/var/lib/cni"), ours),
		"namespaces":  Filter(Walk(n, "/run/netns"), ours),
	}
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		// The built-in chains appear when one looks at them, and have counters.
		seen[save] = Filter(Lines(n.MustRun(n.T, save)), func(line string) bool {
			return strings.HasPrefix(line, "-") || (strings.HasPrefix(line, ":") && strings.HasSuffix(strings.TrimSpace(line), "- [0:0]"))
		})
	}
	for _, text := range n.OwnProcesses() {
		seen["processes"] = append(seen["processes"], text)
	}
	slices.Sort(seen["processes"])
	return seen
}

// RuntimeIDs are the IDs of all sandboxes and containers, and the UIDs of their pods.
func (n *Node) RuntimeIDs() []string {
	n.T.Helper()
	var out []string
	for _, s := range n.Sandboxes() {
		out = append(out, s.Id, s.Labels[pod.LabelPodUID])
	}
	for _, c := range n.Containers() {
		out = append(out, c.Id)
	}
	return out
}

// MustEqualTraces fails the test if a kind of traces has changed.
func (n *Node) MustEqualTraces(before, after Traces) {
	n.T.Helper()
	for kind := range before {
		if !slices.Equal(before[kind], after[kind]) {
			n.T.Errorf("%s before:\n\t%s\nafter:\n\t%s", kind, strings.Join(before[kind], "\n\t"), strings.Join(after[kind], "\n\t"))
		}
	}
}

// MustDifferTraces fails the test if running pods have left no traces of a kind: then Traces does not find them.
func (n *Node) MustDifferTraces(before, during Traces, kinds ...string) {
	n.T.Helper()
	for _, kind := range kinds {
		if slices.Equal(before[kind], during[kind]) {
			n.T.Errorf("no %s are seen of running pods", kind)
		}
	}
}

func (n *Node) MountTable() []string {
	n.T.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		n.T.Fatal(err)
	}
	var points []string
	for _, line := range Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, fields[4])
		}
	}
	return points
}

// Mounts are the mount points below the folder of the node.
func (n *Node) Mounts() []string {
	return Filter(n.MountTable(), func(point string) bool { return strings.HasPrefix(point, n.Dir+"/") })
}

func (n *Node) Cgroups() []string {
	return Filter(Walk(n, "/sys/fs/cgroup"), func(path string) bool { return strings.Contains(path, n.UniqueName) })
}

// OwnProcesses finds what runs for this node: its name is in the arguments, the
// program, the working directory or the cgroup, or it is in the node's network.
func (n *Node) OwnProcesses() map[int]string {
	n.T.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		n.T.Fatal(err)
	}
	network, err := os.Stat(n.Path())
	if err != nil {
		n.T.Fatal(err)
	}
	found := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		if err != nil {
			continue // it has ended, and only waits for its parent to take note
		}
		exe = strings.TrimSuffix(exe, " (deleted)") // it was built anew meanwhile
		// It may end while it is looked at: then the rest is empty.
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		cgroups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		where, err := os.Stat(filepath.Join(dir, "ns", "net"))
		inside := err == nil && os.SameFile(where, network)
		if inside || slices.ContainsFunc([]string{string(args), string(cgroups), exe, cwd}, func(s string) bool { return strings.Contains(s, n.UniqueName) }) {
			found[pid] = fmt.Sprintf("%s: %s", exe, strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

// Walk lists all folders and files below dir. One that is not there is empty.
func Walk(n *Node, dir string) []string {
	n.T.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		// What can't be read went away meanwhile. In /sys the files are the kernel's.
		if err == nil && (d.IsDir() || !strings.HasPrefix(path, "/sys/")) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return found
}

// Lines are the lines of a text that are not blank.
func Lines(text string) []string {
	return Filter(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) != "" })
}

// Filter returns the strings that are to be kept.
func Filter(all []string, keep func(string) bool) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !keep(s) })
}
