package cgroup

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"berth/internal/lib/cgroupname"
	"berth/internal/pods/cgroup/systemd"
)

var errNoSystemd = errors.New("the cgroup driver is systemd, and there is no connection to systemd")

// apply makes a cgroup and writes its limits, in the way of the driver.
func (p *Pods) apply(ctx context.Context, name string, l limits) error {
	driver, err := p.driver()
	if err != nil {
		return err
	}
	path := driver.Path(name)
	if driver == cgroupname.Systemd {
		if err := p.startSlice(ctx, name, l); err != nil {
			return err
		}
	}
	if err := p.cfg.Tree.Make(path); err != nil { // of a slice, the hierarchies and controllers that systemd leaves out
		return err
	}
	return p.cfg.Tree.limit(path, l)
}

// startSlice makes the slice of a cgroup and those above it. A slice that systemd makes by itself, because one below
// it is started, would have default dependencies.
func (p *Pods) startSlice(ctx context.Context, name string, l limits) error {
	if p.cfg.Slices == nil {
		return errNoSystemd
	}
	version, err := p.cfg.Slices.Version(ctx)
	if err != nil {
		return err
	}
	for _, above := range ancestors(name) {
		if p.cfg.Tree.exists(cgroupname.Systemd.Path(above)) {
			continue
		}
		if err := p.cfg.Slices.Start(ctx, cgroupname.Systemd.Slice(above), nil); err != nil {
			return err
		}
	}
	return p.cfg.Slices.Start(ctx, cgroupname.Systemd.Slice(name), l.properties(p.cfg.Tree.V2(), version))
}

// ancestors returns the names of the cgroups above a cgroup, from the top.
func ancestors(name string) []string {
	var out []string
	for above := filepath.Dir(filepath.Clean(name)); above != "/"; above = filepath.Dir(above) {
		out = append([]string{above}, out...)
	}
	return out
}

// stopSlice removes the slice of a cgroup, if the driver has made one.
func (p *Pods) stopSlice(ctx context.Context, driver cgroupname.Driver, name string) error {
	if driver != cgroupname.Systemd {
		return nil
	}
	if p.cfg.Slices == nil {
		return errNoSystemd
	}
	return p.cfg.Slices.Stop(ctx, driver.Slice(name))
}

// setShares writes the CPU shares of a cgroup, and nothing else.
func (p *Pods) setShares(ctx context.Context, name string, shares int64) error {
	driver, err := p.driver()
	if err != nil {
		return err
	}
	l := sharesOnly(shares)
	if driver == cgroupname.Systemd {
		if err := p.setProperties(ctx, name, l); err != nil {
			return err
		}
	}
	return p.cfg.Tree.limit(driver.Path(name), l)
}

// setProperties sets the limits of a slice that exists.
func (p *Pods) setProperties(ctx context.Context, name string, l limits) error {
	if p.cfg.Slices == nil {
		return errNoSystemd
	}
	version, err := p.cfg.Slices.Version(ctx)
	if err != nil {
		return err
	}
	properties := l.properties(p.cfg.Tree.V2(), version)
	if len(properties) == 0 {
		return nil
	}
	return p.cfg.Slices.Set(ctx, cgroupname.Systemd.Slice(name), properties)
}

const (
	// quotaPeriodVersion is the first systemd with a property for the period of a CPU quota.
	quotaPeriodVersion = 242
	// memoryMinVersion is the first systemd with a property for memory.min.
	memoryMinVersion = 240
	// allowedCPUsVersion is the first systemd with a property for the processors of a cgroup.
	allowedCPUsVersion = 244
	// quotaUnit is the unit of a CPU quota in systemd, which counts in percent of a processor, in microseconds per second.
	quotaUnit = 10_000
	// infinity is the value of a property that limits nothing.
	infinity = uint64(math.MaxUint64)
)

// propertyNames are the properties of systemd for files of a cgroup whose values are plain numbers.
var propertyNames = map[string]string{
	"cpu.shares": "CPUShares", "memory.limit_in_bytes": "MemoryLimit", "pids.max": "TasksMax",
	"cpu.weight": "CPUWeight", "memory.max": "MemoryMax", "memory.min": "MemoryMin", "memory.low": "MemoryLow",
}

// properties returns the limits that systemd has a property for. It would reset the files of these to what it knows.
func (l limits) properties(v2 bool, version int) []systemd.Property {
	files := l.v1
	if v2 {
		files = l.v2
	}
	var out []systemd.Property
	for _, f := range files {
		switch name := propertyNames[f.name]; {
		case name == "MemoryMin" && version < memoryMinVersion:
		case name != "":
			out = append(out, systemd.Property{Name: name, Value: propertyValue(f.value)})
		case f.name == cpusetFile && version >= allowedCPUsVersion:
			if cpus, err := cpuset.Parse(f.value); err == nil {
				out = append(out, systemd.Property{Name: "AllowedCPUs", Value: bitmap(cpus)})
			}
		case f.name == "cpu.max" || f.name == "cpu.cfs_quota_us":
			out = append(out, systemd.Property{Name: "CPUQuotaPerSecUSec", Value: quotaPerSecond(l.quota, l.period)})
			if l.period > 0 && version >= quotaPeriodVersion {
				out = append(out, systemd.Property{Name: "CPUQuotaPeriodUSec", Value: uint64(l.period)})
			}
		}
	}
	return out
}

// propertyValue returns the number in a value for a file, or infinity for a value that limits nothing.
func propertyValue(text string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil { // -1 or max
		return infinity
	}
	return n
}

// quotaPerSecond returns the processor time that a quota allows in a second, in microseconds. It is rounded up: the file
// that is written after it is exact.
func quotaPerSecond(quota, period int64) uint64 {
	if quota <= 0 || period <= 0 {
		return infinity
	}
	micros := uint64(quota) * 1_000_000 / uint64(period)
	return (micros + quotaUnit - 1) / quotaUnit * quotaUnit
}

// bitmap returns a set of processors as systemd has it: the lowest bit of the first byte is processor 0.
func bitmap(cpus cpuset.CPUSet) []byte {
	var out []byte
	for _, cpu := range cpus.List() {
		for len(out) <= cpu/8 {
			out = append(out, 0)
		}
		out[cpu/8] |= 1 << (cpu % 8)
	}
	return out
}
