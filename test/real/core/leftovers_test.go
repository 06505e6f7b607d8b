//go:build real

package core

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"berth/test/real/kit"
)

// leftovers is all that there is of pods: in the runtime, on the disk, in the
// network and among the cgroups.
func leftovers(n *kit.Node) []string {
	n.T.Helper()
	var out []string
	for _, s := range n.Sandboxes() {
		out = append(out, fmt.Sprintf("sandbox %.12s of %s (%s)", s.Id, s.Metadata.Name, s.State))
	}
	for _, c := range n.Containers() {
		out = append(out, fmt.Sprintf("container %.12s %s (%s)", c.Id, c.Metadata.Name, c.State))
	}
	for _, dir := range []string{"pods", "log/pods", "log/containers"} {
		dir = filepath.Join(n.Root, dir)
		out = append(out, kit.Filter(kit.Walk(n, dir), func(path string) bool { return path != dir })...)
	}
	out = append(out, addresses(n)...)
	for _, link := range kit.Lines(n.MustRun(n.T, "ip", "-oneline", "link", "show", "type", "veth")) {
		out = append(out, "link "+link)
	}
	out = append(out, kit.Filter(n.Cgroups(), func(path string) bool { return strings.Contains(path, "/pod") })...)
	return out
}

// addresses are the files of host-local in which the addresses of pods are reserved.
func addresses(n *kit.Node) []string {
	return kit.Filter(kit.Walk(n, filepath.Join(n.Root, "cni", "ipam")), func(path string) bool {
		return net.ParseIP(filepath.Base(path)) != nil
	})
}

// mustHaveNothing waits until nothing is left of any pod.
func mustHaveNothing(n *kit.Node) {
	n.T.Helper()
	n.Wait("nothing to be left of any pod", 5*time.Second, func() string { return strings.Join(leftovers(n), "\n\t") })
}
