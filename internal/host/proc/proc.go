// Package proc identifies the processes of this machine, and signals them.
//
// A pid, the name of a program and its command line prove nothing: the kernel gives a pid
// out again, and a container may run any file under any name with any arguments. An Info
// holds what can't be chosen: when the process began, the file that it runs, its user, and
// its pid and mount namespaces. The network namespace is left out: pods share that of the
// machine, and the agent may be started in another one than its runtime was.
//
// No other package sends a signal (internal/arch checks it): what is signalled here is held
// by a pidfd first, and is not another process that got the same pid meanwhile.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Table reads the processes of this machine; Dir is /proc outside of tests.
type Table struct{ Dir string }

// Info describes one process.
type Info struct {
	PID    int
	Parent int
	Start  uint64 // in clock ticks since the machine came up
	Zombie bool
	Exe    string // the path of its program, as it is in its own mount namespace
	File   File   // its program
	// Replaced means that its program was removed, or replaced, after the start.
	Replaced bool
	User     int
	Spaces   Namespaces
	// Own means that it has the user and the namespaces of the process that reads this: no
	// container has both.
	Own bool
	// Args is the command line, and nil unless Own: any other process may have given itself
	// one that has no end, or that blocks whoever reads it.
	Args []string
}

// File is a file of this machine, whatever its names are.
type File struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Namespaces are those that tell a process of the machine from one of a container.
type Namespaces struct {
	PID   string `json:"pid"`
	Mount string `json:"mount"`
}

// FileOf returns the file that a path leads to.
func FileOf(path string) (File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	return fileOf(info), nil
}

func fileOf(info os.FileInfo) File {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return File{}
	}
	return File{Device: stat.Dev, Inode: stat.Ino}
}

// Read describes the process with this pid.
func (t Table) Read(pid int) (Info, error) {
	self, err := t.namespaces("self")
	if err != nil {
		return Info{}, fmt.Errorf("read own namespaces: %w", err)
	}
	return t.read(pid, self)
}

func (t Table) read(pid int, self Namespaces) (Info, error) {
	name := strconv.Itoa(pid)
	dir := filepath.Join(t.Dir, name)
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Info{}, err
	}
	info, err := parseStat(string(stat))
	if err != nil {
		return Info{}, err
	}
	info.PID = pid
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return Info{}, err
	}
	if info.User, err = parseUser(string(status)); err != nil {
		return Info{}, err
	}
	// Kernel threads and zombies have no program, and zombies no namespaces.
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Info{}, err
	}
	info.Exe, info.Replaced = strings.CutSuffix(exe, " (deleted)")
	if info.File, err = FileOf(filepath.Join(dir, "exe")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Info{}, err
	}
	if info.Spaces, err = t.namespaces(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Info{}, err
	}
	if info.Own = info.Spaces == self && info.User == os.Getuid(); !info.Own {
		return info, nil
	}
	info.Args, err = readArgs(filepath.Join(dir, "cmdline"))
	return info, err
}

// Started returns when the process with this pid began, and ErrGone if it has ended, whether its
// parent has asked for its exit code or not. It needs no rights.
func (t Table) Started(pid int) (uint64, error) {
	stat, err := os.ReadFile(filepath.Join(t.Dir, strconv.Itoa(pid), "stat"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, ErrGone
	}
	if err != nil {
		return 0, err
	}
	info, err := parseStat(string(stat))
	if err == nil && info.Zombie {
		err = ErrGone
	}
	return info.Start, err
}

func (t Table) namespaces(of string) (Namespaces, error) {
	dir := filepath.Join(t.Dir, of, "ns")
	pid, err := os.Readlink(filepath.Join(dir, "pid"))
	if err != nil {
		return Namespaces{}, err
	}
	mount, err := os.Readlink(filepath.Join(dir, "mnt"))
	return Namespaces{PID: pid, Mount: mount}, err
}

// maxArgs is how much is read of a command line.
const maxArgs = 64 << 10

func readArgs(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxArgs))
	if err != nil {
		return nil, err
	}
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00"), nil
}

// parseStat reads /proc/PID/stat. The name of the program, in brackets, may hold
// anything, so the fields are counted from its end.
func parseStat(stat string) (Info, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return Info{}, fmt.Errorf("process status %q is not understood", stat)
	}
	const state, parent, start = 0, 1, 19
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= start {
		return Info{}, fmt.Errorf("process status %q is too short", stat)
	}
	ppid, err := strconv.Atoi(fields[parent])
	if err != nil {
		return Info{}, fmt.Errorf("parent in process status: %w", err)
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	if err != nil {
		return Info{}, fmt.Errorf("start time in process status: %w", err)
	}
	return Info{Parent: ppid, Start: ticks, Zombie: fields[state] == "Z"}, nil
}

// parseUser reads the real user of /proc/PID/status. The owner of the folder would not do:
// it is root for each process that must not be traced.
func parseUser(status string) (int, error) {
	_, rest, found := strings.Cut(status, "\nUid:")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, errors.New("process status names no user")
	}
	user, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0, fmt.Errorf("user in process status: %w", err)
	}
	return user, nil
}

// Find returns the processes of the user and the namespaces of its caller that match. Those
// that end meanwhile are left out, and so are the children of a match: between fork and exec
// a child looks like its parent.
func (t Table) Find(match func(Info) bool) ([]Info, error) {
	self, err := t.namespaces("self")
	if err != nil {
		return nil, fmt.Errorf("read own namespaces: %w", err)
	}
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Info
	pids := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		info, err := t.read(pid, self)
		if err != nil || info.Zombie || !info.Own || !match(info) {
			continue
		}
		found = append(found, info)
		pids[pid] = true
	}
	return slices.DeleteFunc(found, func(i Info) bool { return pids[i.Parent] }), nil
}
