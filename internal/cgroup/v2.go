package cgroup

import (
	"bytes"
	"path/filepath"
	"time"
)

// v2 has one hierarchy.
type v2 struct{ mount string }

func (v v2) dir(path string) string { return filepath.Join(v.mount, path) }

func (v v2) usage(path string) Usage {
	dir := v.dir(path)
	out := Usage{At: time.Now(), Processes: value(filepath.Join(dir, "pids.current"))}
	var micros uint64
	if keyed(filepath.Join(dir, "cpu.stat"), field{"usage_usec", &micros}) == 1 {
		out.CPU = new(micros * 1000)
	}
	used, ok := number(filepath.Join(dir, "memory.current"))
	if !ok {
		return out // the root has none
	}
	m := &Memory{Usage: used}
	var inactive uint64
	keyed(filepath.Join(dir, "memory.stat"),
		field{"anon", &m.RSS}, field{"file", &m.Cache}, field{"file_mapped", &m.Mapped},
		field{"pgfault", &m.PageFaults}, field{"pgmajfault", &m.MajorPageFaults}, field{"inactive_file", &inactive},
	)
	m.WorkingSet = minus(used, inactive)
	m.Limit = value(filepath.Join(dir, "memory.max"))
	m.Swap = value(filepath.Join(dir, "memory.swap.current"))
	m.SwapLimit = value(filepath.Join(dir, "memory.swap.max"))
	out.Memory = m
	return out
}

func (v v2) detail(path string) Detail {
	dir := v.dir(path)
	var d Detail
	var periods, throttled, throttledMicros, kills uint64
	if keyed(filepath.Join(dir, "cpu.stat"),
		field{"nr_periods", &periods}, field{"nr_throttled", &throttled}, field{"throttled_usec", &throttledMicros},
	) == 3 {
		d.Periods, d.Throttled, d.ThrottledTime = &periods, &throttled, new(throttledMicros*1000)
	}
	if keyed(filepath.Join(dir, "memory.events"), field{"oom_kill", &kills}) == 1 {
		d.OOMKills = &kills
	}
	d.MemoryPeak = value(filepath.Join(dir, "memory.peak"))
	// The file says "quota period", and the quota may be "max".
	var p page
	quota, period, _ := bytes.Cut(bytes.TrimSpace(p.read(filepath.Join(dir, "cpu.max"))), []byte(" "))
	if n, ok := parse(quota); ok {
		d.Quota = &n
	}
	if n, ok := parse(period); ok {
		d.Period = &n
	}
	if weight := value(filepath.Join(dir, "cpu.weight")); weight != nil {
		d.Shares = new(shares(*weight))
	}
	return d
}

// shares puts a weight (1 to 10000) into the terms of v1 (2 to 262144), the way
// it was made of them by Kubernetes.
func shares(weight uint64) uint64 {
	if weight == 0 {
		return 0
	}
	return 2 + (weight-1)*262142/9999
}
