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

// Usage is the resource usage of a cgroup and of those below it. A nil field is not accounted.
type Usage struct {
	At        time.Time
	CPU       *uint64 // nanoseconds since the cgroup was made
	Memory    *Memory
	Processes *uint64 // and threads
}

// Memory is in bytes.
type Memory struct {
	Usage           uint64 // all, caches included
	WorkingSet      uint64 // usage without inactive file cache
	RSS             uint64
	Cache           uint64
	Mapped          uint64
	ActiveFile      uint64 // page cache that was used lately
	InactiveFile    uint64
	PageFaults      uint64
	MajorPageFaults uint64
	Limit           *uint64 // nil: none
	Swap            *uint64 // nil: swap is not counted
	SwapLimit       *uint64 // nil: none
}

// Detail is what the kernel accounts for a cgroup besides its usage, and its CPU limits.
type Detail struct {
	UserCPU   *uint64 // nanoseconds in user mode
	SystemCPU *uint64 // nanoseconds in kernel mode

	Periods       *uint64 // of the CPU quota
	Throttled     *uint64 // periods in which the quota was used up
	ThrottledTime *uint64 // nanoseconds
	Bursts        *uint64 // periods in which more than the quota was used
	BurstTime     *uint64 // nanoseconds
	OOMKills      *uint64
	MemoryPeak    *uint64 // bytes
	MemoryLimited *uint64 // how often the memory limit was reached
	KernelMemory  *uint64 // bytes
	Reservation   *uint64 // bytes: memory.min of v2, the soft limit of v1; nil: none
	MaxThreads    *uint64 // processes and threads that the cgroup may have; nil: any number

	Quota  *uint64 // microseconds in a period; nil: none
	Period *uint64 // microseconds
	Shares *uint64 // of v1; converted from the weight of v2

	// Time during which processes waited (PSI). It is nil for v1, and on a kernel without PSI.
	CPUPressure, MemoryPressure, IOPressure Pressure
}

// Pressure is the time during which processes waited for a resource, in nanoseconds, and its share of the last seconds.
type Pressure struct {
	Some *uint64 // at least one process waited
	Full *uint64 // all runnable processes waited

	SomeShare, FullShare PressureShare
}

// PressureShare is a part of the last 10, 60 and 300 seconds, in percent.
type PressureShare struct{ Avg10, Avg60, Avg300 float64 }

// Disk is the I/O of a cgroup on one block device.
type Disk struct {
	Device                  string // major:minor
	ReadBytes, WrittenBytes uint64
	Reads, Writes           uint64
	Cost                    *DiskCost // nil: the controller iocost is off
}

// DiskCost has the times of the controller iocost, in microseconds: device time that was used, time for which I/O waited, and
// time in which the cgroup was in debt or was delayed for it.
type DiskCost struct{ Usage, Wait, Debt, Delay uint64 }

// Counters reads the resource usage of cgroups.
type Counters struct {
	layout layout
}

// layout reads the files of one cgroup version.
type layout interface {
	usage(path string) Usage
	detail(path string) Detail
	disks(path string) []Disk
	dir(path string) string // in a hierarchy that has every cgroup
}

// OpenCounters finds the hierarchies of this machine.
func OpenCounters() (*Counters, error) {
	table, err := mounts.Read()
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	return NewCounters(table)
}

// NewCounters takes the hierarchies of a mount table. If both versions are mounted, the one with the
// memory controller is used.
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

// Usage reads the usage of a cgroup. It is empty if the cgroup does not exist.
func (c *Counters) Usage(path string) Usage { return c.layout.usage(path) }

// Detail reads all but the usage of a cgroup.
func (c *Counters) Detail(path string) Detail { return c.layout.detail(path) }

// Disks reads the I/O of a cgroup, by block device.
func (c *Counters) Disks(path string) []Disk { return c.layout.disks(path) }

// Children returns the names of the direct children of a cgroup.
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

// Processes returns the ids of the processes of a cgroup, without those of its children; at most so many.
func (c *Counters) Processes(path string, most int) []int {
	return firstProcesses(filepath.Join(c.layout.dir(path), "cgroup.procs"), most)
}

// Process returns the id of a process in a cgroup, or 0 if it has none.
func (c *Counters) Process(path string) int {
	pid, _ := number(filepath.Join(c.layout.dir(path), "cgroup.procs"))
	return int(min(pid, math.MaxInt32))
}
