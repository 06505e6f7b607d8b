//go:build real

package cgroup

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
)

// A container that may write to its cgroup can make some for threads in it, which list no
// processes.
func TestACgroupWithThreadsIsRemoved(t *testing.T) {
	tree, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	v2 := slices.IndexFunc(tree.hierarchies, func(h hierarchy) bool { return h.v2 })
	if v2 < 0 {
		t.Fatal("no cgroups of version 2 are mounted")
	}
	// given a pod with a process, one of whose threads is in such a cgroup
	root := fmt.Sprintf("/berth-test-%d", os.Getpid())
	pods, err := NewPods(PodsConfig{Tree: tree, Owner: rootstest.Owner(t, roots.Claim{CgroupRoot: root}), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.RemoveEmpty(context.Background()); err != nil {
			t.Error(err)
		}
	})
	pod := filepath.Join(tree.hierarchies[v2].mount, root, "podx")
	threads := filepath.Join(pod, "container", "threads")
	if err := os.MkdirAll(threads, 0o755); err != nil {
		t.Fatal(err)
	}
	process := exec.Command("cat")
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = process.Wait() // it was killed
	})
	for _, file := range [][2]string{
		{filepath.Join(threads, "cgroup.type"), "threaded"},
		{filepath.Join(pod, "container", "cgroup.procs"), strconv.Itoa(process.Process.Pid)},
		{filepath.Join(threads, "cgroup.threads"), strconv.Itoa(process.Process.Pid)},
	} {
		if err := os.WriteFile(file[0], []byte(file[1]), 0); err != nil {
			t.Fatal(err)
		}
	}

	// when it is looked at and removed, then its process is found, and nothing is left
	if occupied, err := pods.Occupied("podx"); err != nil || !occupied {
		t.Errorf("it has processes: %t, %v", occupied, err)
	}
	if err := pods.Remove(t.Context(), root+"/podx"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(pod); !os.IsNotExist(err) {
		t.Errorf("the cgroup is left: %v", err)
	}
}
