//go:build real

package core

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/test/real/kit"
)

func TestManyPodsOverAndOver(t *testing.T) {
	t.Parallel()
	// given an agent that had a pod once: what the first one brings (a bridge, rules) stays
	n := kit.NewNode(t)
	n.Start()
	n.Apply("first.yaml", kit.NewPod("first", "sleep"))
	n.WaitRunning("first")
	n.RemoveManifest("first.yaml")
	n.WaitGone("first")
	mustHaveNothing(n)
	before, filesBefore, snapshotsBefore := n.Traces(nil), files(n), snapshots(n)

	// when many pods come and go, over and over
	const many, rounds = 50, 5
	pods, names := kit.NumberedPods("p", many, "sleep")
	var ids []string
	for round := range rounds {
		began := time.Now()
		n.Apply("pods.yaml", pods...)
		n.WaitRunning(names...)
		up := time.Since(began)
		if round == 0 && len(snapshots(n)) < 2*many {
			t.Fatal("the layers of running pods are not seen")
		}
		ids = append(ids, n.RuntimeIDs()...)
		n.RemoveManifest("pods.yaml")
		n.WaitGone(names...)
		t.Logf("round %d: all ran after %s, and were gone %s later", round+1, up.Round(time.Millisecond), (time.Since(began) - up).Round(time.Millisecond))
	}

	// then nothing is left of them
	mustHaveNothing(n)
	if more := newOnes(filesBefore, files(n)); len(more) > 0 {
		t.Errorf("these files are left:\n\t%s", strings.Join(more, "\n\t"))
	}
	// but for what the runtime collects when it has enough of it
	if kept := len(newOnes(snapshotsBefore, snapshots(n))); kept >= 2*many {
		t.Errorf("of %d layers of containers and sandboxes, %d are left", 2*many*rounds, kept)
	}
	n.Wait("the last processes to end", 5*time.Second, func() string { return kit.MissingUnless(len(n.OwnProcesses()) == len(before["processes"])) })
	after := n.Traces(ids)
	// A bridge without pods loses its carrier and its own addresses, in its own time.
	for _, seen := range []kit.Traces{before, after} {
		for i, link := range seen["network"] {
			seen["network"][i], _, _ = strings.Cut(link, ": <")
		}
		seen["routes"] = kit.Filter(seen["routes"], func(route string) bool { return !strings.Contains(route, "dev berth-") })
	}
	n.MustEqualTraces(before, after)
}

// files returns all files below the root directory but the runtime's own.
func files(n *kit.Node) []string {
	n.T.Helper()
	store := filepath.Join(n.Root, "containerd") + "/"
	return kit.Filter(kit.Walk(n, n.Root), func(path string) bool { return !strings.HasPrefix(path, store) })
}

// snapshots are the layers that the runtime holds of containers and images.
func snapshots(n *kit.Node) []string {
	n.T.Helper()
	found, err := filepath.Glob(filepath.Join(n.Root, "containerd", "io.containerd.snapshotter.v1.*", "snapshots", "*"))
	if err != nil {
		n.T.Fatal(err)
	}
	return found
}

func newOnes(before, after []string) []string {
	return kit.Filter(after, func(s string) bool { return !slices.Contains(before, s) })
}
