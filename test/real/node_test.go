//go:build real

package real

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/runtime/ociarchive"
)

// nodeName is what every node calls itself: the names of its pods end with it.
const nodeName = "node"

// node is a machine of a test's own.
type node struct {
	t *testing.T
	network

	name      string // in the names of all that the node leaves on the machine
	dir       string // all files of the test
	root      string // of berth
	manifests string
	config    string
	podCIDR   string
	program   string // berth, or whatever it is called
	socket    string // of the container runtime

	agent *agent // nil if none was started
}

// count gives every node another range of addresses.
var count atomic.Int32

// newNode makes a machine that has the workload's image. Nothing runs on it yet.
func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bt-") // short: there are sockets below it
	if err != nil {
		t.Fatal(err)
	}
	n := nodeIn(t, dir)
	if err := os.Mkdir(n.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	n.configure("")
	n.drop("workload.tar", archive(t, workloadImage, ociarchive.Write))
	return n
}

// nodeIn is the machine whose files are in dir. They go with the test, as does all else.
func nodeIn(t *testing.T, dir string) *node {
	t.Helper()
	n := &node{
		t: t, name: filepath.Base(dir), dir: dir, program: berthProgram(t),
		root: filepath.Join(dir, "root"), manifests: filepath.Join(dir, "manifests"), config: filepath.Join(dir, "config.yaml"),
		podCIDR: fmt.Sprintf("10.201.%d.0/24", count.Add(1)%256),
	}
	n.socket = filepath.Join(n.root, "run", "containerd.sock")
	t.Cleanup(n.removeFiles)
	n.network = newNetwork(t, n.name)
	t.Cleanup(n.end)
	t.Cleanup(func() {
		if t.Failed() {
			n.dump()
		}
	})
	return n
}

// configure writes the agent's configuration: what every node has, and more.
func (n *node) configure(more string) {
	n.t.Helper()
	text := fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: /%s\n%s", n.name, more)
	if err := os.WriteFile(n.config, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// drop puts an image archive into the folder that berth imports from.
func (n *node) drop(file string, content []byte) {
	n.t.Helper()
	dir := filepath.Join(n.root, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	n.put(filepath.Join(dir, file), content)
}

// put makes a file appear all at once.
func (n *node) put(path string, content []byte) {
	n.t.Helper()
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	if err := os.WriteFile(part, content, 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(part, path); err != nil {
		n.t.Fatal(err)
	}
}

// wait asks until nothing is missing any more. It fails the test when that takes
// too long, with what was missing last.
func (n *node) wait(what string, limit time.Duration, missing func() string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		last := missing()
		if last == "" {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			n.t.Fatalf("waited %s for: %s\nstill missing: %s", limit, what, last)
		}
	}
}

// end takes everything down at the end of a test, and makes sure that it is.
func (n *node) end() {
	if n.agent == nil {
		return
	}
	n.agent.kill()
	if got := n.berth("down", "--grace-period", "5"); got.code != 0 {
		n.t.Errorf("berth down: code %d: %s", got.code, got.stderr)
	}
	if left := n.cgroups(); len(left) > 0 {
		n.t.Errorf("cgroups are left: %v", left)
	}
	for pid, text := range n.processes() {
		n.t.Errorf("process %d is left: %s", pid, text)
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

func (n *node) removeFiles() {
	if left := n.mounts(); len(left) > 0 {
		n.t.Errorf("%s is kept, since there are mounts in it: %v", n.dir, left)
		return
	}
	if err := os.RemoveAll(n.dir); err != nil {
		n.t.Error(err)
	}
}

// dump shows what one wants to see of a test that failed.
func (n *node) dump() {
	n.t.Logf("pods:\n%s", n.berth("get", "pods", "-o", "wide"))
	n.t.Logf("runtime:\n%s", n.runtimeTable())
	n.t.Logf("berth's log:\n%s", tail(n.logFile(), 16<<10))
	n.t.Logf("containerd's log:\n%s", tail(filepath.Join(n.root, "log", "containerd.log"), 4<<10))
}

func tail(path string, most int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = append([]byte("...\n"), text[len(text)-most:]...)
	}
	return string(text)
}
