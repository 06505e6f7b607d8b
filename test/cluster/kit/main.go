//go:build real

// Package kit is what the tests of test/cluster have in common: control planes and nodes of their own
// (see test/lab), the cluster that the tests of a folder share, and pods in them.
//
// The tests use berth in a real Kubernetes cluster: etcd, API server, controller manager and scheduler
// as upstream builds them, and nodes that are network namespaces. Each folder of test/cluster is named
// after the group of internal/ that it tests.
//
// Tests that leave the nodes as they found them share one cluster of two (SharedLab), each in a
// namespace of the API of its own. If they are not parallel, they may do to node two what they like, as
// long as they undo it: the parallel ones have not begun yet. All other tests have a cluster of their
// own (NewPlane, JoinNode).
//
// Root and `make cluster-parts` are needed; `make test-cluster` does all of that.
package kit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"berth/test/fixture"
	"berth/test/lab"
	"berth/test/lab/control"
)

// Labs are the folders of all labs. Their paths are short, as the roots of agents
// have to be.
const Labs = "/tmp/bc-*"

// Main is the TestMain of each folder.
func Main(m *testing.M) {
	if err := clearLabs(); err != nil {
		fmt.Fprintln(os.Stderr, err) // the tests work beside leftovers, too
	}
	code := fixture.RunTests(m)
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// clearLabs takes down labs of test processes that were killed.
func clearLabs() error {
	left, err := filepath.Glob(Labs)
	for _, dir := range left {
		if failure := lab.Clear(LabConfig(dir)); !errors.Is(failure, lab.ErrInUse) {
			err = errors.Join(err, failure)
		}
	}
	return err
}

// LabConfig is the configuration of a lab in a folder of its own, with parts beside etcd and the API server.
func LabConfig(dir string, parts ...control.Part) lab.Config {
	return lab.Config{Name: filepath.Base(dir), Dir: dir, Programs: fixture.BinDir(), Parts: parts}
}

// startLab starts a control plane in a folder of its own. Its parts may have flags of
// their own.
func startLab(t *testing.T, flags map[control.Part][]string, parts ...control.Part) *lab.Lab {
	t.Helper()
	image := WorkloadArchive(t)
	dir, err := os.MkdirTemp(filepath.Split(Labs))
	Must(t, err)
	config := LabConfig(dir, parts...)
	config.Images, config.Flags = []string{image}, flags
	began := time.Now()
	l, err := lab.Start(t.Context(), config)
	Must(t, err)
	t.Logf("the control plane was ready after %s", time.Since(began).Round(time.Millisecond))
	return l
}

// EndLab takes everything down.
func EndLab(l *lab.Lab) error {
	if err := l.Close(); err != nil {
		return err
	}
	return os.RemoveAll(l.Dir())
}

// NewPlane starts a control plane. It ends with the test, with the nodes that have
// joined, and leaves nothing.
func NewPlane(t *testing.T, parts ...control.Part) *lab.Lab {
	t.Helper()
	return NewPlaneWith(t, nil, parts...)
}

// NewPlaneWith is NewPlane for parts with flags of their own.
func NewPlaneWith(t *testing.T, flags map[control.Part][]string, parts ...control.Part) *lab.Lab {
	t.Helper()
	l := startLab(t, flags, parts...)
	t.Cleanup(func() {
		DumpLogs(t, l, append([]control.Part{control.Etcd, control.APIServer}, parts...)...)
		if err := EndLab(l); err != nil {
			t.Error(err)
		}
	})
	return l
}

// DumpLogs adds the logs of a cluster to the output of a test that failed.
func DumpLogs(t *testing.T, l *lab.Lab, parts ...control.Part) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, part := range parts {
		t.Logf("log of %s:\n%s", part, l.Tail(part))
	}
	for _, n := range l.Nodes() {
		t.Logf("log of node %s:\n%s", n.Name, n.Tail())
	}
}

// JoinNode starts an agent as a node of a control plane.
func JoinNode(t *testing.T, plane *lab.Lab, name string) *lab.Node {
	t.Helper()
	return JoinNodeAs(t, plane, lab.NodeConfig{Name: name})
}

// JoinNodeAs is JoinNode for a node with settings of its own.
func JoinNodeAs(t *testing.T, plane *lab.Lab, c lab.NodeConfig) *lab.Node {
	t.Helper()
	n, err := plane.Join(c)
	Must(t, err)
	return n
}

// Client talks to the API server as u.
func Client(t *testing.T, plane *lab.Lab, u control.User) *kubernetes.Clientset {
	t.Helper()
	client, err := plane.Client(u)
	Must(t, err)
	return client
}

// Kubectl runs the real one as the admin, and returns what it printed.
func Kubectl(t *testing.T, plane *lab.Lab, args ...string) string {
	t.Helper()
	out, err := plane.Kubectl(t.Context(), args...)
	Must(t, err)
	return out
}

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
