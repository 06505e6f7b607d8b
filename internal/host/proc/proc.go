// Package proc identifies the processes of this machine, and signals them.
//
// A pid, the name of a program and its command line prove nothing: the kernel reuses pids,
// and a container may run any file under any name with any arguments. An Info has the
// properties that a process can't choose: its start time, the file that it runs, its user,
// and its pid and mount namespaces. The network namespace is left out: pods may share that of
// the machine, and the agent may be started in another one than its runtime was.
//
// No other package sends a signal (internal/arch checks it). A process is held by a pidfd
// before it is signalled, so the signal can't reach a later process with the same pid.
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
	Exe    string // path of the executable, in the mount namespace of the process
	File   File   // the executable
	// Replaced: the executable was removed, or replaced, after the start.
	Replaced   bool
	User       int
	Namespaces Namespaces
	// Own: the process has the user and the namespaces of the caller. No process of a container
	// has both.
	Own bool
	// Args is the command line, and nil unless Own: a read of the command line of any other
	// process might block, or never end.
	Args []string
}

// File identifies a file of this machine, whatever its names are.
type File struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Namespaces are the namespaces by which processes of the machine differ from those of
// containers.
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

// Read returns the Info of the process with this pid.
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
	if info.Namespaces, err = t.namespaces(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Info{}, err
	}
	if info.Own = info.Namespaces == self && info.User == os.Getuid(); !info.Own {
		return info, nil
	}
	info.Args, err = readArgs(filepath.Join(dir, "cmdline"))
	return info, err
}

// Started returns the start time of the process with this pid, as in Info. A process that has
// ended, zombies included, is ErrGone. It needs no privileges.
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

// maxArgs is how many bytes of a command line are read.
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

// parseStat parses /proc/PID/stat. The name of the program, in brackets, may contain
// spaces and brackets, so the fields are counted from the last bracket.
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

// parseUser parses the real user of /proc/PID/status. The owner of /proc/PID is not always the
// user: it is root for a process that must not be traced.
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

// Find returns the matching processes among those with the caller's user and namespaces (Own).
// Processes that end meanwhile are left out, and so are the children of a match: between fork
// and exec a child looks like its parent.
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
