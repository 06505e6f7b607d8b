package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/runtime/render"
)

// delegatedControllers are the controllers of v2 that a pod's cgroup needs.
var delegatedControllers = []string{"cpuset", "cpu", "io", "memory", "hugetlb", "pids"}

// Make makes a cgroup and its parents in every hierarchy. Those that exist are fine.
func (t *Tree) Make(path string) error {
	return t.each(path, func(h hierarchy, _ string) error {
		at := h.mount
		for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
			if h.v2 {
				if err := delegateControllers(at); err != nil {
					return err
				}
			}
			above := at
			at = filepath.Join(at, name)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make cgroup: %w", err)
			}
			if slices.Contains(h.controllers, "cpuset") {
				if err := inheritCpuset(above, at); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// delegateControllers enables the controllers of a v2 cgroup for its children. The kernel may refuse
// one (because of real-time processes, for instance): then its files are missing in the children, and
// it limits nothing.
func delegateControllers(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("find the controllers of a cgroup: %w", err)
	}
	passed, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("find the controllers of a cgroup: %w", err)
	}
	for _, c := range delegatedControllers {
		if slices.Contains(strings.Fields(string(have)), c) && !slices.Contains(strings.Fields(string(passed)), c) {
			_ = writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+c)
		}
	}
	return nil
}

// inheritCpuset copies the cpuset of the parent to a new v1 cgroup. Without it no process can enter.
func inheritCpuset(above, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return fmt.Errorf("find the processors of a cgroup: %w", err)
		}
		if strings.TrimSpace(string(have)) != "" {
			continue
		}
		from, err := os.ReadFile(filepath.Join(above, file))
		if err != nil {
			return fmt.Errorf("find the processors of a cgroup: %w", err)
		}
		if err := writeLimit(dir, file, strings.TrimSpace(string(from))); err != nil {
			return err
		}
	}
	return nil
}

// limits are values for the files of one cgroup, for both versions.
type limits struct {
	v1, v2        []file
	hugePages     map[string]int64 // bytes by the size of pages; the limit of other sizes is 0
	keepHugePages bool             // their limits stay as they are
	quota, period int64            // of processor time, in microseconds; zero: no limit
}

func limitsOf(c render.Cgroup) limits {
	return limits{v1: filesV1(c), v2: filesV2(c), hugePages: c.HugePages, quota: c.Quota, period: c.Period}
}

// without returns the limits without some files.
func (l limits) without(names ...string) limits {
	named := func(f file) bool { return slices.Contains(names, f.name) }
	l.v1, l.v2 = slices.DeleteFunc(slices.Clone(l.v1), named), slices.DeleteFunc(slices.Clone(l.v2), named)
	return l
}

// limit writes the limits of a cgroup. Limits of a controller that the machine lacks are not enforced.
func (t *Tree) limit(path string, l limits) error {
	return t.each(path, func(h hierarchy, dir string) error {
		if h.v2 {
			return errors.Join(writeExisting(dir, l.v2), l.limitHugePages(dir, "max"))
		}
		var errs []error
		for _, f := range l.v1 {
			if slices.Contains(h.controllers, f.controller) {
				errs = append(errs, writeLimit(dir, f.name, f.value))
			}
		}
		if slices.Contains(h.controllers, "hugetlb") {
			errs = append(errs, l.limitHugePages(dir, "limit_in_bytes"))
		}
		return errors.Join(errs...)
	})
}

// sharesOnly limits a cgroup to CPU shares, and leaves all else as it is.
func sharesOnly(shares int64) limits {
	l := limits{keepHugePages: true}
	l.v1 = []file{{"cpu", "cpu.shares", decimal(shares)}}
	l.v2 = []file{{"cpu", "cpu.weight", decimal(weight(shares))}}
	return l
}

// file is a value for one file of a cgroup.
type file struct{ controller, name, value string }

// The files of a limit, in both versions.
var (
	quotaFiles  = []string{"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.max"}
	sharesFiles = []string{"cpu.shares", "cpu.weight"}
	memoryFiles = []string{"memory.limit_in_bytes", memoryFileV2}
	pidsFiles   = []string{"pids.max"}
)

const (
	memoryFileV2 = "memory.max"
	cpusetFile   = "cpuset.cpus"
)

func filesV1(c render.Cgroup) []file {
	out := []file{{"cpu", "cpu.shares", decimal(c.Shares)}}
	if c.Period > 0 { // before the quota, which the kernel checks against it
		out = append(out, file{"cpu", "cpu.cfs_period_us", decimal(c.Period)})
	}
	return append(
		out,
		file{"cpu", "cpu.cfs_quota_us", limitOr(c.Quota, "-1")},
		file{"memory", "memory.limit_in_bytes", limitOr(c.Memory, "-1")},
		file{"pids", "pids.max", limitOr(c.Pids, "max")},
	)
}

func filesV2(c render.Cgroup) []file {
	period := c.Period
	if period == 0 {
		period = 100_000
	}
	out := []file{
		{"cpu", "cpu.weight", decimal(weight(c.Shares))},
		{"cpu", "cpu.max", limitOr(c.Quota, "max") + " " + decimal(period)},
		{"memory", memoryFileV2, limitOr(c.Memory, "max")},
		{"pids", "pids.max", limitOr(c.Pids, "max")},
	}
	if c.CPUs != "" {
		out = append(out, file{"cpuset", cpusetFile, c.CPUs})
	}
	if c.ProtectMemory {
		out = append(out, file{"memory", "memory.min", decimal(c.MemoryMin)}, file{"memory", "memory.low", decimal(c.MemoryLow)})
	}
	return out
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func limitOr(n int64, none string) string {
	if n <= 0 {
		return none
	}
	return decimal(n)
}

// weight converts CPU shares of v1 (2 to 262144) to a weight of v2 (1 to 10000), by the formula of the
// OCI runtimes: 1024 shares, one CPU, are the kernel's default of 100.
func weight(shares int64) int64 {
	switch {
	case shares <= 2:
		return 1
	case shares >= 262144:
		return 10000
	}
	l := math.Log2(float64(shares))
	return int64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}

// writeExisting writes those files of v2 that exist: the others belong to missing controllers.
func writeExisting(dir string, files []file) error {
	var errs []error
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(dir, f.name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, writeLimit(dir, f.name, f.value))
	}
	return errors.Join(errs...)
}

// limitHugePages sets the limit of every page size of the machine. Sizes without a limit get 0.
func (l limits) limitHugePages(dir, suffix string) error {
	if l.keepHugePages {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "hugetlb.*."+suffix))
	if err != nil {
		return fmt.Errorf("find the sizes of huge pages: %w", err)
	}
	var errs []error
	for _, path := range files {
		name := filepath.Base(path)
		size := strings.TrimSuffix(strings.TrimPrefix(name, "hugetlb."), "."+suffix)
		if !strings.Contains(size, ".") { // hugetlb.2MB.rsvd.max limits reservations
			errs = append(errs, writeLimit(dir, name, decimal(l.hugePages[size])))
		}
	}
	return errors.Join(errs...)
}

func writeLimit(dir, name, value string) error {
	if err := writeFile(filepath.Join(dir, name), value); err != nil {
		return fmt.Errorf("limit a cgroup to %s: %w", value, err)
	}
	return nil
}

// writeFile writes to a file of cgroupfs, which exists or not: it is never created.
func writeFile(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
