package cgroup

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"time"
)

// v1 reads cgroups of version 1, with a hierarchy for each controller.
type v1 struct{ cpu, cpuacct, memory, pids, blkio string }

// tick is the unit of cpuacct.stat (USER_HZ).
const tick = uint64(10 * time.Millisecond)

// unlimited is the value of a memory limit that is not set, rounded to pages.
const unlimited = math.MaxInt64 >> 12 << 12

func (v v1) dir(path string) string { return filepath.Join(v.cpuacct, path) }

func (v v1) usage(path string) Usage {
	out := Usage{At: time.Now(), CPU: value(filepath.Join(v.cpuacct, path, "cpuacct.usage"))}
	if v.pids != "" {
		out.Processes = value(filepath.Join(v.pids, path, "pids.current"))
	}
	used, ok := number(filepath.Join(v.memory, path, "memory.usage_in_bytes"))
	if !ok {
		return out
	}
	m := &Memory{Usage: used}
	swap := uint64(math.MaxUint64)
	limit, limitWithSwap := uint64(unlimited), uint64(unlimited) // its own, or that of a parent
	keyed(filepath.Join(v.memory, path, "memory.stat"),
		field{"total_rss", &m.RSS}, field{"total_cache", &m.Cache}, field{"total_mapped_file", &m.Mapped},
		field{"total_pgfault", &m.PageFaults}, field{"total_pgmajfault", &m.MajorPageFaults},
		field{"total_inactive_file", &m.InactiveFile}, field{"total_active_file", &m.ActiveFile}, field{"total_swap", &swap},
		field{"hierarchical_memory_limit", &limit}, field{"hierarchical_memsw_limit", &limitWithSwap},
	)
	m.WorkingSet = minus(used, m.InactiveFile)
	if own, ok := number(filepath.Join(v.memory, path, "memory.limit_in_bytes")); ok && own < unlimited {
		m.Limit = &own
	}
	if swap != math.MaxUint64 {
		m.Swap = &swap
		if limitWithSwap < unlimited {
			m.SwapLimit = new(minus(limitWithSwap, limit))
		}
	}
	out.Memory = m
	return out
}

func (v v1) detail(path string) Detail {
	var d Detail
	var periods, throttled, throttledTime, bursts, burstTime, kills, user, system uint64
	if keyed(filepath.Join(v.cpuacct, path, "cpuacct.stat"), field{"user", &user}, field{"system", &system}) == 2 {
		d.UserCPU, d.SystemCPU = new(user*tick), new(system*tick)
	}
	if v.cpu != "" {
		dir := filepath.Join(v.cpu, path)
		found := keyed(filepath.Join(dir, "cpu.stat"),
			field{"nr_periods", &periods}, field{"nr_throttled", &throttled}, field{"throttled_time", &throttledTime},
			field{"nr_bursts", &bursts}, field{"burst_time", &burstTime},
		)
		if found >= 3 {
			d.Periods, d.Throttled, d.ThrottledTime = &periods, &throttled, &throttledTime
		}
		if found == 5 { // Linux 5.14 and newer
			d.Bursts, d.BurstTime = &bursts, &burstTime
		}
		d.Quota = value(filepath.Join(dir, "cpu.cfs_quota_us")) // -1 is no limit, and does not parse as a number
		d.Period = value(filepath.Join(dir, "cpu.cfs_period_us"))
		d.Shares = value(filepath.Join(dir, "cpu.shares"))
	}
	if keyed(filepath.Join(v.memory, path, "memory.oom_control"), field{"oom_kill", &kills}) == 1 {
		d.OOMKills = &kills
	}
	d.MemoryPeak = value(filepath.Join(v.memory, path, "memory.max_usage_in_bytes"))
	d.MemoryLimited = value(filepath.Join(v.memory, path, "memory.failcnt"))
	d.KernelMemory = value(filepath.Join(v.memory, path, "memory.kmem.usage_in_bytes"))
	if soft, ok := number(filepath.Join(v.memory, path, "memory.soft_limit_in_bytes")); ok && soft < unlimited {
		d.Reservation = &soft
	}
	if v.pids != "" {
		d.MaxThreads = value(filepath.Join(v.pids, path, "pids.max"))
	}
	return d
}

func (v v1) disks(path string) (out []Disk) {
	if v.blkio == "" {
		return nil
	}
	dir := filepath.Join(v.blkio, path)
	out = addOperations(out, filepath.Join(dir, "blkio.throttle.io_service_bytes_recursive"),
		func(d *Disk) (read, written *uint64) { return &d.ReadBytes, &d.WrittenBytes })
	return addOperations(out, filepath.Join(dir, "blkio.throttle.io_serviced_recursive"),
		func(d *Disk) (read, written *uint64) { return &d.Reads, &d.Writes })
}

// addOperations reads lines such as "8:0 Write 4096", and adds the values to disks.
func addOperations(disks []Disk, path string, into func(*Disk) (read, written *uint64)) []Disk {
	var p page
	for rest := p.read(path); len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		device, pair, _ := bytes.Cut(line, []byte(" "))
		operation, text, _ := bytes.Cut(pair, []byte(" "))
		n, ok := parse(text)
		if !ok {
			continue // the total of all devices
		}
		i := slices.IndexFunc(disks, func(d Disk) bool { return d.Device == string(device) })
		if i < 0 {
			i = len(disks)
			disks = append(disks, Disk{Device: string(device)})
		}
		read, written := into(&disks[i])
		switch string(operation) {
		case "Read":
			*read = n
		case "Write":
			*written = n
		}
	}
	return disks
}
