//go:build real

package real

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestManyPodsOverAndOver(t *testing.T) {
	t.Parallel()
	// given an agent that had a pod once: what the first one brings (a bridge, rules) stays
	n := newNode(t)
	n.start()
	n.apply("first.yaml", newPod("first", "sleep"))
	n.waitRunning("first")
	n.remove("first.yaml")
	n.waitGone("first")
	n.mustHaveNothing()
	before, filesBefore, snapshotsBefore := n.look(nil), n.files(), n.snapshots()

	// when many pods come and go, over and over
	const many, rounds = 50, 5
	pods, names := numbered("p", many, "sleep")
	var ids []string
	for round := range rounds {
		began := time.Now()
		n.apply("pods.yaml", pods...)
		n.waitRunning(names...)
		up := time.Since(began)
		if round == 0 && len(n.snapshots()) < 2*many {
			t.Fatal("the layers of running pods are not seen")
		}
		ids = append(ids, n.allIDs()...)
		n.remove("pods.yaml")
		n.waitGone(names...)
		t.Logf("round %d: all ran after %s, and were gone %s later", round+1, up.Round(time.Millisecond), (time.Since(began) - up).Round(time.Millisecond))
	}

	// then nothing is left of them
	n.mustHaveNothing()
	if more := newOnes(filesBefore, n.files()); len(more) > 0 {
		t.Errorf("these files are left:\n\t%s", strings.Join(more, "\n\t"))
	}
	// but for what the runtime collects when it has enough of it
	if kept := len(newOnes(snapshotsBefore, n.snapshots())); kept >= 2*many {
		t.Errorf("of %d layers of containers and sandboxes, %d are left", 2*many*rounds, kept)
	}
	n.wait("the last processes to end", 5*time.Second, func() string { return boolText(len(n.processes()) == len(before["processes"])) })
	after := n.look(ids)
	// A bridge without pods loses its carrier and its own addresses, in its own time.
	for _, seen := range []traces{before, after} {
		for i, link := range seen["network"] {
			seen["network"][i], _, _ = strings.Cut(link, ": <")
		}
		seen["routes"] = filter(seen["routes"], func(route string) bool { return !strings.Contains(route, "dev berth-") })
	}
	n.mustBeAsBefore(before, after)
}

// files are all those below the root directory but the runtime's own.
func (n *node) files() []string {
	n.t.Helper()
	store := filepath.Join(n.root, "containerd") + "/"
	return filter(walk(n, n.root), func(path string) bool { return !strings.HasPrefix(path, store) })
}

// snapshots are the layers that the runtime holds of containers and images.
func (n *node) snapshots() []string {
	n.t.Helper()
	found, err := filepath.Glob(filepath.Join(n.root, "containerd", "io.containerd.snapshotter.v1.*", "snapshots", "*"))
	if err != nil {
		n.t.Fatal(err)
	}
	return found
}

func newOnes(before, after []string) []string {
	return filter(after, func(s string) bool { return !slices.Contains(before, s) })
}
