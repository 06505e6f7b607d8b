//go:build real

package real

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// leftovers is all that there is of pods: in the runtime, on the disk, in the
// network and among the cgroups.
func (n *node) leftovers() []string {
	n.t.Helper()
	var out []string
	for _, s := range n.sandboxes() {
		out = append(out, fmt.Sprintf("sandbox %.12s of %s (%s)", s.Id, s.Metadata.Name, s.State))
	}
	for _, c := range n.containers() {
		out = append(out, fmt.Sprintf("container %.12s %s (%s)", c.Id, c.Metadata.Name, c.State))
	}
	for _, dir := range []string{"pods", "log/pods", "log/containers"} {
		dir = filepath.Join(n.root, dir)
		out = append(out, filter(walk(n, dir), func(path string) bool { return path != dir })...)
	}
	out = append(out, n.addresses()...)
	for _, link := range lines(n.mustRun(n.t, "ip", "-oneline", "link", "show", "type", "veth")) {
		out = append(out, "link "+link)
	}
	out = append(out, filter(n.cgroups(), func(path string) bool { return strings.Contains(path, "/pod") })...)
	return out
}

// addresses are the files that hold those given to pods.
func (n *node) addresses() []string {
	return filter(walk(n, filepath.Join(n.root, "cni", "ipam")), func(path string) bool {
		return net.ParseIP(filepath.Base(path)) != nil
	})
}

// mustHaveNothing waits until nothing is left of any pod.
func (n *node) mustHaveNothing() {
	n.t.Helper()
	n.wait("nothing to be left of any pod", 5*time.Second, func() string { return strings.Join(n.leftovers(), "\n\t") })
}
