package stats

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// maxProcesses is how many processes of a container are looked at. A container with more has no such stats.
	maxProcesses = 4096
	// maxDescriptors is how many file descriptors of all containers one snapshot looks at. Containers that come after
	// so many have no such stats: a container can open a million files.
	maxDescriptors = 100_000
)

// Processes is what the processes of a container have open. A nil field was not measured.
type Processes struct {
	Count        uint64
	Descriptors  *uint64
	Sockets      *uint64
	MaxOpenFiles *int64 // soft limit of the first process; -1: none
}

// processReader reads the processes of the containers of one snapshot.
type processReader struct {
	proc string
	left int // descriptors that may still be looked at
}

func newProcessReader(proc string) *processReader {
	return &processReader{proc: proc, left: maxDescriptors}
}

// read returns the stats of the processes of one container, the first of which is its oldest, or nil if there are none or too many.
func (r *processReader) read(pids []int) *Processes {
	if len(pids) == 0 || len(pids) >= maxProcesses {
		return nil
	}
	out := &Processes{Count: uint64(len(pids)), MaxOpenFiles: r.maxOpenFiles(pids[0])}
	var descriptors, sockets uint64
	for _, pid := range pids {
		files, open, ok := r.descriptors(pid)
		if !ok {
			return out
		}
		descriptors, sockets = descriptors+files, sockets+open
	}
	out.Descriptors, out.Sockets = &descriptors, &sockets
	return out
}

// descriptors counts the open files of a process, and the sockets among them. A process that has ended has none. It
// returns false if they are too many.
func (r *processReader) descriptors(pid int) (files, sockets uint64, ok bool) {
	const batch = 1024
	path := filepath.Join(r.proc, strconv.Itoa(pid), "fd")
	dir, err := os.Open(path)
	if err != nil {
		return 0, 0, true
	}
	defer func() { _ = dir.Close() }()
	for {
		names, err := dir.Readdirnames(batch)
		r.left -= len(names)
		if r.left < 0 {
			return 0, 0, false
		}
		for _, name := range names {
			files++
			if to, err := os.Readlink(filepath.Join(path, name)); err == nil && strings.HasPrefix(to, "socket:") {
				sockets++
			}
		}
		if err != nil {
			return files, sockets, errors.Is(err, io.EOF) || os.IsNotExist(err)
		}
	}
}

// maxOpenFiles returns the soft limit of open files of a process, -1 if there is none, or nil if the process has ended.
func (r *processReader) maxOpenFiles(pid int) *int64 {
	content, err := os.ReadFile(filepath.Join(r.proc, strconv.Itoa(pid), "limits"))
	if err != nil {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "Max open files")
		fields := strings.Fields(rest)
		switch {
		case !ok || len(fields) == 0:
		case fields[0] == "unlimited":
			return new(int64(-1))
		default:
			if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				return &n
			}
		}
	}
	return nil
}
