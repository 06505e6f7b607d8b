package bundle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// procTable reads what runs on this machine; dir is /proc outside of tests.
type procTable struct{ dir string }

// procInfo is one process. A pid alone is never trusted: the kernel gives it out
// again, and start tells the two apart.
type procInfo struct {
	pid    int
	parent int
	start  uint64 // in clock ticks since the machine came up
	zombie bool
	exe    string
	args   []string
}

func (t procTable) read(pid int) (procInfo, error) {
	dir := filepath.Join(t.dir, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return procInfo{}, err
	}
	info, err := parseStat(string(stat))
	if err != nil {
		return procInfo{}, err
	}
	info.pid = pid
	// Kernel threads and zombies have no program; they match nothing below.
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return procInfo{}, err
	}
	// A program that was replaced by a newer one while it runs reads so.
	info.exe = strings.TrimSuffix(exe, " (deleted)")
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return procInfo{}, err
	}
	info.args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	return info, nil
}

// parseStat reads /proc/PID/stat. The name of the program, in brackets, may hold
// anything, so the fields are counted from its end.
func parseStat(stat string) (procInfo, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return procInfo{}, fmt.Errorf("process status %q is not understood", stat)
	}
	const state, parent, start = 0, 1, 19
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= start {
		return procInfo{}, fmt.Errorf("process status %q is too short", stat)
	}
	ppid, err := strconv.Atoi(fields[parent])
	if err != nil {
		return procInfo{}, fmt.Errorf("parent in process status: %w", err)
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	if err != nil {
		return procInfo{}, fmt.Errorf("start time in process status: %w", err)
	}
	return procInfo{parent: ppid, start: ticks, zombie: fields[state] == "Z"}, nil
}

// find returns the processes that match. Those that end meanwhile are left out,
// and so are the children of a match: between fork and exec a child looks like its parent.
func (t procTable) find(match func(procInfo) bool) ([]procInfo, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []procInfo
	pids := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		info, err := t.read(pid)
		if err != nil || info.zombie || !match(info) {
			continue
		}
		found = append(found, info)
		pids[pid] = true
	}
	return slices.DeleteFunc(found, func(i procInfo) bool { return pids[i.parent] }), nil
}

// isContainerd tells whether a process is the containerd of this root. The folder of
// the program may change with an upgrade; the configuration is what makes it ours.
func (p paths) isContainerd(i procInfo) bool {
	return filepath.Base(i.exe) == filepath.Base(p.containerd) && hasFlag(i.args, "--config", p.config)
}

// isShim tells whether a process is a shim of the containerd of this root.
func (p paths) isShim(i procInfo) bool {
	return filepath.Base(i.exe) == filepath.Base(p.shim) && hasFlag(i.args, "-address", p.socket)
}

func hasFlag(args []string, name, value string) bool {
	for i := 1; i < len(args)-1; i++ {
		if args[i] == name && args[i+1] == value {
			return true
		}
	}
	return false
}
