//go:build real

package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/test/real/kit"
)

// memoryLimit is a cgroup of the test's own that limits memory.
type memoryLimit struct {
	t   *testing.T
	dir string
	v2  bool
}

// newMemoryLimit makes a cgroup, and removes it at the end of the test.
func newMemoryLimit(t *testing.T, bytes int) memoryLimit {
	t.Helper()
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	l := memoryLimit{t: t, v2: err == nil}
	name := fmt.Sprintf("limit-%d", os.Getpid())
	limits := map[string]string{"memory.limit_in_bytes": strconv.Itoa(bytes)}
	if l.dir = filepath.Join("/sys/fs/cgroup/memory", name); l.v2 {
		l.dir = filepath.Join("/sys/fs/cgroup", name)
		limits = map[string]string{"memory.max": strconv.Itoa(bytes), "memory.swap.max": "0"}
		l.write("../cgroup.subtree_control", "+memory")
	}
	if err := os.Mkdir(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(l.dir); err != nil {
			t.Error(err)
		}
	})
	for file, value := range limits {
		l.write(file, value)
	}
	return l
}

func (l memoryLimit) write(file, value string) {
	l.t.Helper()
	err := os.WriteFile(filepath.Join(l.dir, file), []byte(value), 0)
	if file == "memory.swap.max" && errors.Is(err, os.ErrNotExist) {
		return // a kernel that can't swap
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l memoryLimit) read(file string) string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, file))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}

// peak is the most that was used, with the files that were read: these are not held.
func (l memoryLimit) peak() int {
	l.t.Helper()
	file := "memory.max_usage_in_bytes"
	if l.v2 {
		file = "memory.peak"
	}
	bytes, err := strconv.Atoi(strings.TrimSpace(l.read(file)))
	if err != nil {
		l.t.Fatal(err)
	}
	return bytes
}

// resetPeak resets the peak of the memory in use; not every kernel can.
func (l memoryLimit) resetPeak() {
	l.t.Helper()
	if !l.v2 {
		l.write("memory.max_usage_in_bytes", "0")
	}
}

// killed is how many processes were killed because there was no memory left.
func (l memoryLimit) killed() int {
	l.t.Helper()
	file := "memory.oom_control"
	if l.v2 {
		file = "memory.events"
	}
	for _, line := range kit.Lines(l.read(file)) {
		var n int
		if _, err := fmt.Sscanf(line, "oom_kill %d", &n); err == nil {
			return n
		}
	}
	l.t.Fatalf("%s does not tell who was killed", file)
	return 0
}

// startIn runs the agent within a limit, and returns once it answers. A runtime that it starts would be within
// it, too: one should run already.
func startIn(n *kit.Node, l memoryLimit) {
	n.T.Helper()
	args := append([]string{"-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(l.dir, "cgroup.procs"), n.Program}, n.RunArgs()...)
	n.LaunchCommand(exec.Command("sh", args...))
	n.WaitAgent()
}
