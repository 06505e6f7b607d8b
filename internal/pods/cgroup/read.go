package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A scrape of metrics reads hundreds of small files, so they are read into a buffer on the stack,
// without the poller of os.File.

// page is a buffer that is large enough for each file that is read here.
type page [8 << 10]byte

// read returns the content of a file, or nil if it can't be read.
func (p *page) read(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	length := 0
	for length < len(p) {
		n, err := unix.Read(fd, p[length:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil
		}
		if n == 0 {
			break
		}
		length += n
	}
	return p[:length]
}

// number returns the first number in a file, or false if there is none, as in "max".
func number(path string) (uint64, bool) {
	var p page
	return parse(firstWord(p.read(path)))
}

// value is like number, but returns nil if there is none.
func value(path string) *uint64 {
	if n, ok := number(path); ok {
		return &n
	}
	return nil
}

// field is a key in a flat keyed file, and the variable for its value.
type field struct {
	key  string
	into *uint64
}

// keyed reads a flat keyed file, and returns how many of the fields it has.
func keyed(path string, fields ...field) (found int) {
	var p page
	for rest := p.read(path); len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		key, text, ok := bytes.Cut(line, []byte(" "))
		for _, f := range fields {
			if !ok || f.key != string(key) {
				continue
			}
			if n, ok := parse(firstWord(text)); ok {
				*f.into = n
				found++
			}
		}
	}
	return found
}

// firstProcesses returns the ids at the beginning of a file with one on each line.
func firstProcesses(path string, most int) []int {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var out []int
	for lines := bufio.NewScanner(file); len(out) < most && lines.Scan(); {
		if pid, err := strconv.Atoi(lines.Text()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

func firstWord(b []byte) []byte {
	if i := bytes.IndexAny(b, " \n"); i >= 0 {
		return b[:i]
	}
	return b
}

func parse(word []byte) (uint64, bool) {
	n, err := strconv.ParseUint(string(word), 10, 64)
	return n, err == nil
}

// minus returns a - b, or 0 if b is larger, since the two were not read at the same time.
func minus(a, b uint64) uint64 { return a - min(a, b) }
