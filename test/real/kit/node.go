//go:build real

package kit

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

// NodeName is the name of every node: the names of its pods end with it.
const NodeName = "node"

// Node is a machine of a test's own.
type Node struct {
	T *testing.T
	Network

	UniqueName string // in the names of all that the node leaves on the machine
	Dir        string // all files of the test
	Root       string // of berth
	Manifests  string
	Config     string
	PodCIDR    string
	Program    string // berth, or whatever it is called
	Socket     string // of the container runtime

	Agent *Agent // nil if none was started
}

// count gives every node another range of addresses.
var count atomic.Int32

// NewNode makes a machine that has the workload's image. Nothing runs on it yet.
func NewNode(t *testing.T) *Node {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bt-") // short: there are sockets below it
	if err != nil {
		t.Fatal(err)
	}
	n := NodeIn(t, dir)
	if err := os.Mkdir(n.Manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	n.Configure("")
	n.AddImage("workload.tar", WorkloadArchive(t, WorkloadImage, ociarchive.Write))
	return n
}

// NodeIn makes a machine whose files are in dir. It is removed with them when the test ends.
func NodeIn(t *testing.T, dir string) *Node {
	t.Helper()
	n := &Node{
		T: t, UniqueName: filepath.Base(dir), Dir: dir, Program: BerthProgram(t),
		Root: filepath.Join(dir, "root"), Manifests: filepath.Join(dir, "manifests"), Config: filepath.Join(dir, "config.yaml"),
		PodCIDR: fmt.Sprintf("10.201.%d.0/24", count.Add(1)%256),
	}
	n.Socket = filepath.Join(n.Root, "run", "containerd.sock")
	t.Cleanup(n.RemoveFiles)
	n.Network = NewNetwork(t, n.UniqueName)
	t.Cleanup(n.End)
	t.Cleanup(func() {
		if t.Failed() {
			n.Dump()
		}
	})
	return n
}

// Configure writes the agent's configuration: what every node has, and more.
func (n *Node) Configure(more string) {
	n.T.Helper()
	text := fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: /%s\n%s", n.UniqueName, more)
	if err := os.WriteFile(n.Config, []byte(text), 0o644); err != nil {
		n.T.Fatal(err)
	}
}

// AddImage puts an image archive into the folder that berth imports from.
func (n *Node) AddImage(file string, content []byte) {
	n.T.Helper()
	dir := filepath.Join(n.Root, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.T.Fatal(err)
	}
	n.ReplaceFile(filepath.Join(dir, file), content)
}

// ReplaceFile writes a file atomically.
func (n *Node) ReplaceFile(path string, content []byte) {
	n.T.Helper()
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	if err := os.WriteFile(part, content, 0o644); err != nil {
		n.T.Fatal(err)
	}
	if err := os.Rename(part, path); err != nil {
		n.T.Fatal(err)
	}
}

// Wait calls missing until it returns an empty string, which says that nothing is missing. It fails
// the test after the limit, with the last answer.
func (n *Node) Wait(what string, limit time.Duration, missing func() string) {
	n.T.Helper()
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
			n.T.Fatalf("waited %s for: %s\nstill missing: %s", limit, what, last)
		}
	}
}

// End takes everything down at the end of a test, and makes sure that it is.
func (n *Node) End() {
	if n.Agent == nil {
		return
	}
	n.Agent.Kill()
	if got := n.Berth("down", "--grace-period", "5"); got.Code != 0 {
		n.T.Errorf("berth down: code %d: %s", got.Code, got.Stderr)
	}
	if left := n.Cgroups(); len(left) > 0 {
		n.T.Errorf("cgroups are left: %v", left)
	}
	for pid, text := range n.OwnProcesses() {
		n.T.Errorf("process %d is left: %s", pid, text)
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

func (n *Node) RemoveFiles() {
	if left := n.Mounts(); len(left) > 0 {
		n.T.Errorf("%s is kept, since there are mounts in it: %v", n.Dir, left)
		return
	}
	if err := os.RemoveAll(n.Dir); err != nil {
		n.T.Error(err)
	}
}

// Dump logs the pods, the state of the runtime and the ends of the logs, for a test that failed.
func (n *Node) Dump() {
	n.T.Logf("pods:\n%s", n.Berth("get", "pods", "-o", "wide"))
	n.T.Logf("runtime:\n%s", n.runtimeTable())
	n.T.Logf("berth's log:\n%s", Tail(n.LogFile(), 16<<10))
	n.T.Logf("containerd's log:\n%s", Tail(filepath.Join(n.Root, "log", "containerd.log"), 4<<10))
}

// Tail returns the last bytes of a file, or why it can't be read.
func Tail(path string, most int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = append([]byte("...\n"), text[len(text)-most:]...)
	}
	return string(text)
}

// MissingUnless is an answer for Wait: "it" is missing as long as a condition does not hold.
func MissingUnless(holds bool) string {
	if holds {
		return ""
	}
	return "it"
}
