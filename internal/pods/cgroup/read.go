package cgroup

import (
	"bytes"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// A scrape reads hundreds of small files, so they are read on the stack and
// without what os.File does for files that can block.

// page holds any of the files that are read here.
type page [8 << 10]byte

// read returns the content of a file, or nil if there is none.
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

// number is the first one in a file. It is false if there is none, as in one
// that says "max".
func number(path string) (uint64, bool) {
	var p page
	return parse(firstWord(p.read(path)))
}

// value is number for what may be missing.
func value(path string) *uint64 {
	if n, ok := number(path); ok {
		return &n
	}
	return nil
}

// field is a line of a file of keys and numbers, and where its number goes.
type field struct {
	key  string
	into *uint64
}

// keyed reads a file of lines with a key and a number, and tells how many of the
// fields it has.
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

// minus is a - b, and not below zero: the two were not read at the same moment.
func minus(a, b uint64) uint64 { return a - min(a, b) }
