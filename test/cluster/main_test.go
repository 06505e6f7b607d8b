//go:build real

// Package cluster tests berth in a real Kubernetes cluster: etcd, API server,
// controller manager and scheduler as upstream builds them (see control). Every test
// has a cluster of its own, in a network namespace of its own.
//
// Root and `make cluster-parts` are needed; `make test-cluster` does all of that.
package cluster

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/control"
	"berth/test/cluster/netns"
)

// atATime is how many tests run at the same time: a control plane that starts keeps a
// core or two busy for some seconds.
const atATime = "2"

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
	os.Exit(m.Run())
}

// planeAddress is where every API server is, each in its own namespace.
const planeAddress = "10.99.0.1"

// newPlane starts a control plane. It ends with the test, and leaves nothing.
func newPlane(t *testing.T, parts ...control.Part) *control.Plane {
	t.Helper()
	programs, err := filepath.Abs("../../bin/cluster")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "bc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	ns := newNamespace(t, filepath.Base(dir))

	began := time.Now()
	plane, err := control.Start(t.Context(), control.Config{
		Namespace: ns, Address: planeAddress, Programs: programs, Dir: dir, Parts: parts,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the control plane was ready after %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			for _, part := range append([]control.Part{control.Etcd, control.APIServer}, parts...) {
				t.Logf("log of %s:\n%s", part, plane.Tail(part))
			}
		}
		if err := plane.Close(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

// newNamespace makes a namespace with the plane's address. It sees to it that nothing
// runs in it any more when the test is over.
func newNamespace(t *testing.T, name string) *netns.Namespace {
	t.Helper()
	ns, err := netns.New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := exec.Command("ip", "netns", "pids", name).CombinedOutput(); err != nil || len(left) > 0 {
			t.Errorf("no process should be left: %s (%v)", left, err)
		}
		if err := ns.Remove(); err != nil {
			t.Error(err)
		}
	})
	if _, err := ns.Run("ip", "address", "add", planeAddress+"/32", "dev", "lo"); err != nil {
		t.Fatal(err)
	}
	return ns
}

// clientOf talks to the API server as u.
func clientOf(t *testing.T, plane *control.Plane, u control.User) *kubernetes.Clientset {
	t.Helper()
	client, err := plane.Client(u)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
