//go:build real

package kit

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// ReadablePod is a pod whose files ReadFile can read.
func ReadablePod(name string) *v1.Pod { return NewPod(name, "serve", ":7070") }

// ProcStatus returns a value of /proc/self/status in the container of a pod.
func (n *Node) ProcStatus(p v1.Pod, name string) string {
	n.T.Helper()
	return n.ProcStatusOf(p, "self", name)
}

// ProcStatusOf returns a value of /proc/PID/status of a process, as the container sees it.
func (n *Node) ProcStatusOf(p v1.Pod, process, name string) string {
	n.T.Helper()
	for _, line := range Lines(n.ReadFile(p, "/proc/"+process+"/status")) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	n.T.Fatalf("%s is not in the status of a process", name)
	return ""
}

func (n *Node) MustContain(p v1.Pod, path string, want ...string) {
	n.T.Helper()
	got := n.ReadFile(p, path)
	for _, w := range want {
		if !strings.Contains(got, w) {
			n.T.Errorf("%s of %s has no %q:\n%s", path, p.Name, w, got)
		}
	}
}
