package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/host/mounts"
)

// Usage is what the processes of a cgroup, and of those below it, use. What is nil
// is not counted there.
type Usage struct {
	At        time.Time
	CPU       *uint64 // nanoseconds of one core since the cgroup was made
	Memory    *Memory
	Processes *uint64 // and threads
}

// Memory is in bytes.
type Memory struct {
	Usage           uint64 // all, caches included
	WorkingSet      uint64 // what can't be taken back at once
	RSS             uint64
	Cache           uint64
	Mapped          uint64
	PageFaults      uint64
	MajorPageFaults uint64
	Limit           *uint64 // nil: none
	Swap            *uint64 // nil: swap is not counted
	SwapLimit       *uint64 // nil: none
}

// Detail is what is known of a cgroup beside its usage.
type Detail struct {
	UserCPU   *uint64 // nanoseconds of one core, in the programs themselves
	SystemCPU *uint64 // and in the kernel on their behalf

	Periods       *uint64 // of the CPU quota
	Throttled     *uint64 // periods in which the quota was used up
	ThrottledTime *uint64 // nanoseconds
	OOMKills      *uint64
	MemoryPeak    *uint64 // bytes

	Quota  *uint64 // microseconds in a period; nil: none
	Period *uint64 // microseconds
	Shares *uint64 // of v1; a weight of v2 is put into its terms

	// For how long processes waited for something that was short. Version 1 does
	// not count it, nor does a kernel without PSI.
	CPUPressure, MemoryPressure, IOPressure Pressure
}

// Pressure is in nanoseconds.
type Pressure struct {
	Some *uint64 // some processes waited
	Full *uint64 // all of them that had something to do waited
}

// Disk is what went from and to one block device.
type Disk struct {
	Device                  string // its numbers, such as 8:0
	ReadBytes, WrittenBytes uint64
	Reads, Writes           uint64
}

// Counters reads what the kernel counts for cgroups. It keeps nothing but where
// they are.
type Counters struct {
	layout layout
}

// layout knows the files of one version.
type layout interface {
	usage(path string) Usage
	detail(path string) Detail
	disks(path string) []Disk
	dir(path string) string // of a hierarchy that knows every cgroup
}

// OpenCounters finds out where the cgroups of this machine are counted.
func OpenCounters() (*Counters, error) {
	table, err := mounts.Read()
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	return NewCounters(table)
}

// NewCounters is for a machine with that mount table. Where both versions are
// mounted, the one that has the memory controller counts.
func NewCounters(table mounts.Table) (*Counters, error) {
	byController := map[string]string{}
	for _, m := range table {
		switch m.FSType {
		case "cgroup2":
			if hasMemory(m.Mountpoint) {
				return &Counters{layout: v2{m.Mountpoint}}, nil
			}
		case "cgroup":
			for option := range strings.SplitSeq(m.VFSOptions, ",") {
				byController[option] = m.Mountpoint
			}
		}
	}
	if byController["cpuacct"] == "" || byController["memory"] == "" {
		return nil, errors.New("find cgroups: neither version 2 with the memory controller nor cpuacct and memory of version 1 are mounted")
	}
	return &Counters{layout: v1{
		cpu: byController["cpu"], cpuacct: byController["cpuacct"], memory: byController["memory"], pids: byController["pids"],
		blkio: byController["blkio"],
	}}, nil
}

func hasMemory(mount string) bool {
	controllers, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(controllers)), "memory")
}

// Usage reads what a cgroup uses. One that is gone uses nothing that could be told.
func (c *Counters) Usage(path string) Usage { return c.layout.usage(path) }

// Detail reads the rest.
func (c *Counters) Detail(path string) Detail { return c.layout.detail(path) }

// Disks reads what went from and to block devices. Those of which nothing is known are
// not among them.
func (c *Counters) Disks(path string) []Disk { return c.layout.disks(path) }

// Children returns the names of the cgroups right below one.
func (c *Counters) Children(path string) ([]string, error) {
	entries, err := os.ReadDir(c.layout.dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Process returns the id of a process in a cgroup, or 0 if it has none.
func (c *Counters) Process(path string) int {
	pid, _ := number(filepath.Join(c.layout.dir(path), "cgroup.procs"))
	return int(min(pid, math.MaxInt32))
}
