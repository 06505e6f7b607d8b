//go:build real

// Package cluster tests berth in a real Kubernetes cluster: etcd, API server,
// controller manager and scheduler as upstream builds them (see control), and nodes
// that are network namespaces (see lab).
//
// Tests that leave the nodes as they found them share one cluster of two (sharedLab),
// each in a namespace of the API of its own. Those of them that are not parallel may
// do to node two what they like, as long as they undo it: the others have not begun
// yet. All other tests have a cluster of their own (newPlane, joinNode).
//
// Root and `make cluster-parts` are needed; `make test-cluster` does all of that.
package cluster

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"berth/test/lab"
	"berth/test/lab/control"
)

// atATime is how many tests run at the same time: a control plane that starts keeps a
// core or two busy for some seconds. One of them waits for most of its time.
const atATime = "3"

// labs are the folders of all labs. Their paths are short, as the roots of agents
// have to be.
const labs = "/tmp/bc-*"

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests make network namespaces, and so need root")
		os.Exit(1)
	}
	// Given before the command line is read, so -parallel still counts.
	if err := flag.Set("test.parallel", atATime); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := clearLabs(); err != nil {
		fmt.Fprintln(os.Stderr, err) // it is in nobody's way
	}
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// clearLabs takes down what tests left that were killed.
func clearLabs() error {
	left, err := filepath.Glob(labs)
	for _, dir := range left {
		if failure := lab.Clear(labConfig(dir)); !errors.Is(failure, lab.ErrInUse) {
			err = errors.Join(err, failure)
		}
	}
	return err
}

func labConfig(dir string, parts ...control.Part) lab.Config {
	return lab.Config{Name: filepath.Base(dir), Dir: dir, Programs: programs(), Parts: parts}
}

// programs is the folder of everything that is built.
func programs() string {
	path, err := filepath.Abs("../../bin")
	if err != nil {
		panic(err)
	}
	return path
}

// startLab starts a control plane in a folder of its own. Its parts may have flags of
// their own.
func startLab(t *testing.T, flags map[control.Part][]string, parts ...control.Part) *lab.Lab {
	t.Helper()
	image := workloadArchive(t)
	dir, err := os.MkdirTemp(filepath.Split(labs))
	must(t, err)
	config := labConfig(dir, parts...)
	config.Images, config.Flags = []string{image}, flags
	began := time.Now()
	l, err := lab.Start(t.Context(), config)
	must(t, err)
	t.Logf("the control plane was ready after %s", time.Since(began).Round(time.Millisecond))
	return l
}

// endLab takes everything down.
func endLab(l *lab.Lab) error {
	if err := l.Close(); err != nil {
		return err
	}
	return os.RemoveAll(l.Dir())
}

// newPlane starts a control plane. It ends with the test, with the nodes that have
// joined, and leaves nothing.
func newPlane(t *testing.T, parts ...control.Part) *lab.Lab {
	t.Helper()
	return newPlaneWith(t, nil, parts...)
}

// newPlaneWith is newPlane for parts with flags of their own.
func newPlaneWith(t *testing.T, flags map[control.Part][]string, parts ...control.Part) *lab.Lab {
	t.Helper()
	l := startLab(t, flags, parts...)
	t.Cleanup(func() {
		tellLogs(t, l, append([]control.Part{control.Etcd, control.APIServer}, parts...)...)
		if err := endLab(l); err != nil {
			t.Error(err)
		}
	})
	return l
}

// tellLogs shows what a cluster has logged to whoever wants to know why the test failed.
func tellLogs(t *testing.T, l *lab.Lab, parts ...control.Part) {
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

// joinNode starts an agent as a node of a control plane.
func joinNode(t *testing.T, plane *lab.Lab, name string) *lab.Node {
	t.Helper()
	return joinNodeAs(t, plane, lab.NodeConfig{Name: name})
}

// joinNodeAs is joinNode for a node with settings of its own.
func joinNodeAs(t *testing.T, plane *lab.Lab, c lab.NodeConfig) *lab.Node {
	t.Helper()
	n, err := plane.Join(c)
	must(t, err)
	return n
}

// clientOf talks to the API server as u.
func clientOf(t *testing.T, plane *lab.Lab, u control.User) *kubernetes.Clientset {
	t.Helper()
	client, err := plane.Client(u)
	must(t, err)
	return client
}

// kubectl runs the real one as the admin, and returns what it printed.
func kubectl(t *testing.T, plane *lab.Lab, args ...string) string {
	t.Helper()
	out, err := plane.Kubectl(t.Context(), args...)
	must(t, err)
	return out
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
