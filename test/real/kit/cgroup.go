//go:build real

package kit

import (
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ResourceList makes a list of pairs, such as "cpu", "100m", "memory", "64Mi".
func ResourceList(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// ReadCgroup returns the content of a file of one of this node's cgroups. Version 2 knows no
// tree per controller.
func (n *Node) ReadCgroup(controller, path, file string) string {
	n.T.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", controller, n.UniqueName, path, file))
	if err != nil {
		n.T.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
