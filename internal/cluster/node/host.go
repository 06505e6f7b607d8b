package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Host reads the facts of a machine. Its fields are the places to read them from.
type Host struct {
	Root    string // empty: /
	Storage string // a directory on the file system that pods write to
	Images  string // a directory on the file system that holds the images; empty: not known
}

// ReadResources reads the machine for its resources: memory and disk have to be known, and other facts,
// such as a machine ID, may be missing.
func (h Host) ReadResources() (Machine, error) {
	m, err := h.Read()
	if m.Memory == 0 || m.Storage == 0 {
		return m, fmt.Errorf("find out how much memory and disk there is: %w", err)
	}
	return m, nil
}

// Read reads the facts of the machine. A fact that can't be read is left empty and named in the
// error: the machine is a node without it, too.
func (h Host) Read() (Machine, error) {
	// Pods can use only the CPUs that this process may use.
	m := Machine{CPUs: runtime.NumCPU()}
	var errs []error
	read := func(paths ...string) string {
		text, err := h.first(paths...)
		errs = append(errs, err)
		return strings.TrimSpace(string(text))
	}
	m.MachineID = read("etc/machine-id", "var/lib/dbus/machine-id")
	m.BootID = read("proc/sys/kernel/random/boot_id")
	m.Kernel = read("proc/sys/kernel/osrelease")
	m.OSImage = prettyName(read("etc/os-release", "usr/lib/os-release"))
	// Many machines have no UUID of their own, and only root may read it.
	m.SystemUUID = m.MachineID
	if uuid, err := h.first("sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid"); err == nil {
		m.SystemUUID = strings.Trim(string(uuid), "\x00 \n")
	}

	memory := meminfo(read("proc/meminfo"))
	m.Memory, m.Swap = memory["MemTotal"], memory["SwapTotal"]

	var err error
	m.HugePages, err = h.hugePages()
	errs = append(errs, err)
	m.Storage, err = size(h.Storage)
	errs = append(errs, err)
	return m, errors.Join(errs...)
}

func (h Host) path(name string) string { return filepath.Join("/", h.Root, name) }

// first reads the first of several files that exists.
func (h Host) first(names ...string) ([]byte, error) {
	var first error
	for _, name := range names {
		text, err := os.ReadFile(h.path(name))
		if err == nil {
			return text, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// meminfo parses lines like "MemTotal: 16 kB" into bytes.
func meminfo(text string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		if len(words) == 2 && words[1] == "kB" {
			if n, err := strconv.ParseInt(words[0], 10, 64); err == nil {
				out[key] = n << 10
			}
		}
	}
	return out
}

// prettyName returns PRETTY_NAME of an os-release file.
func prettyName(text string) string {
	lines := bufio.NewScanner(bytes.NewBufferString(text))
	for lines.Scan() {
		if name, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return ""
}

// hugePages returns the bytes of memory in huge pages, by page size.
func (h Host) hugePages() (map[int64]int64, error) {
	dir := h.path("sys/kernel/mm/hugepages")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel without them
	}
	if err != nil {
		return nil, err
	}
	out := map[int64]int64{}
	for _, e := range entries {
		kilobytes, isSize := strings.CutPrefix(e.Name(), "hugepages-")
		size, err := strconv.ParseInt(strings.TrimSuffix(kilobytes, "kB"), 10, 64)
		if !isSize || err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "nr_hugepages"))
		if err != nil {
			return out, err
		}
		pages, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return out, fmt.Errorf("read %s/%s: %w", dir, e.Name(), err)
		}
		out[size<<10] = pages * size << 10
	}
	return out, nil
}

// size returns the size in bytes of the file system that a path is on.
func size(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("find the size of the file system of %s: %w", path, err)
	}
	return int64(s.Blocks) * s.Bsize, nil
}
