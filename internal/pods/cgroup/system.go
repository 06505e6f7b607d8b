package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
)

// systemInterval is the time between two looks for processes that are in no cgroup.
const systemInterval = time.Minute

// SystemProcesses keeps the processes of the machine that are in no cgroup in one of their own, as systemCgroups of the
// kubelet asks. The first process and the threads of the kernel stay where they are.
type SystemProcesses struct {
	Tree *Tree
	Path string // of the cgroup, which is made
	Proc string // where /proc is
	Log  *slog.Logger
}

// Keep moves processes now and every systemInterval, until ctx ends.
func (s SystemProcesses) Keep(ctx context.Context) {
	var streak logonce.Streak
	for {
		moved, err := s.move()
		switch {
		case err == nil:
			streak.Recovered()
		case streak.FailedAs(err.Error(), time.Now()):
			s.Log.Warn("processes of the machine are not in the cgroup that is meant for them (systemCgroups)", "cgroup", s.Path, "err", err)
		}
		if moved > 0 {
			s.Log.Info("processes of the machine have moved into their cgroup", "cgroup", s.Path, "processes", moved)
		}
		if run.Sleep(ctx, systemInterval) != nil {
			return
		}
	}
}

// move returns how many processes were moved.
func (s SystemProcesses) move() (moved int, err error) {
	text, err := os.ReadFile(filepath.Join(s.Tree.top(), "cgroup.procs"))
	if err != nil {
		return 0, fmt.Errorf("list the processes in no cgroup: %w", err)
	}
	var errs []error
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 || s.isKernelThread(pid) { // 0: it is not of this PID namespace
			continue
		}
		switch err := s.Tree.Enter(s.Path, pid); {
		case err == nil:
			moved++
		case !errors.Is(err, syscall.ESRCH): // else it has ended
			errs = append(errs, fmt.Errorf("process %d: %w", pid, err))
		}
	}
	return moved, errors.Join(errs...)
}

// isKernelThread reports whether a process has no executable.
func (s SystemProcesses) isKernelThread(pid int) bool {
	_, err := os.Readlink(filepath.Join(s.Proc, strconv.Itoa(pid), "exe"))
	return errors.Is(err, fs.ErrNotExist)
}

// top returns the directory of the cgroup above all others. Of v1, the hierarchy of devices counts, as for the kubelet.
func (t *Tree) top() string {
	for _, h := range t.hierarchies {
		if slices.Contains(h.controllers, "devices") {
			return h.mount
		}
	}
	return t.hierarchies[0].mount
}
