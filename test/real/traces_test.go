//go:build real

package real

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

// traces is whatever pods and a runtime could leave on the machine, by kind.
type traces map[string][]string

// look lists the traces of a node. What belongs to it is known by the node's name
// and by the ids that its runtime gave out.
func (n *node) look(ids []string) traces {
	n.t.Helper()
	ours := func(text string) bool {
		return strings.Contains(text, n.name) || slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) })
	}
	seen := traces{
		"mounts":  filter(n.mountTable(), ours),
		"cgroups": filter(walk(n, "/sys/fs/cgroup"), ours),
		"network": lines(n.mustRun(n.t, "ip", "-oneline", "link", "show")),
		"routes":  lines(n.mustRun(n.t, "ip", "route", "show", "table", "all")),
		// The CNI library remembers what it did there.
		"cni results": filter(walk(n, "/var/lib/cni"), ours),
		"namespaces":  filter(walk(n, "/run/netns"), ours),
	}
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		// The built-in chains appear when one looks at them, and have counters.
		seen[save] = filter(lines(n.mustRun(n.t, save)), func(line string) bool {
			return strings.HasPrefix(line, "-") || (strings.HasPrefix(line, ":") && strings.HasSuffix(strings.TrimSpace(line), "- [0:0]"))
		})
	}
	for _, text := range n.processes() {
		seen["processes"] = append(seen["processes"], text)
	}
	slices.Sort(seen["processes"])
	return seen
}

// allIDs are the names that the runtime and the agent gave to what runs now.
func (n *node) allIDs() []string {
	n.t.Helper()
	var out []string
	for _, s := range n.sandboxes() {
		out = append(out, s.Id, s.Labels[pod.LabelPodUID])
	}
	for _, c := range n.containers() {
		out = append(out, c.Id)
	}
	return out
}

// mustBeAsBefore compares two looks.
func (n *node) mustBeAsBefore(before, after traces) {
	n.t.Helper()
	for kind := range before {
		if !slices.Equal(before[kind], after[kind]) {
			n.t.Errorf("%s before:\n\t%s\nafter:\n\t%s", kind, strings.Join(before[kind], "\n\t"), strings.Join(after[kind], "\n\t"))
		}
	}
}

// mustDiffer makes sure that looking finds something at all.
func (n *node) mustDiffer(before, during traces, kinds ...string) {
	n.t.Helper()
	for _, kind := range kinds {
		if slices.Equal(before[kind], during[kind]) {
			n.t.Errorf("no %s are seen of running pods", kind)
		}
	}
}

func (n *node) mountTable() []string {
	n.t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		n.t.Fatal(err)
	}
	var points []string
	for _, line := range lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, fields[4])
		}
	}
	return points
}

// mounts are those in the folder of the node.
func (n *node) mounts() []string {
	return filter(n.mountTable(), func(point string) bool { return strings.HasPrefix(point, n.dir+"/") })
}

func (n *node) cgroups() []string {
	return filter(walk(n, "/sys/fs/cgroup"), func(path string) bool { return strings.Contains(path, n.name) })
}

// processes finds what runs for this node: its name is in the arguments, the
// program, the working directory or the cgroup, or it is in the node's network.
func (n *node) processes() map[int]string {
	n.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		n.t.Fatal(err)
	}
	network, err := os.Stat(n.Path())
	if err != nil {
		n.t.Fatal(err)
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
		if inside || slices.ContainsFunc([]string{string(args), string(cgroups), exe, cwd}, func(s string) bool { return strings.Contains(s, n.name) }) {
			found[pid] = fmt.Sprintf("%s: %s", exe, strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

// walk lists all folders and files below dir. One that is not there is empty.
func walk(n *node, dir string) []string {
	n.t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		// What can't be read went away meanwhile. In /sys the files are the kernel's.
		if err == nil && (d.IsDir() || !strings.HasPrefix(path, "/sys/")) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return found
}

func lines(text string) []string {
	return filter(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) != "" })
}

func filter(all []string, keep func(string) bool) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !keep(s) })
}
