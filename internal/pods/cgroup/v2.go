package cgroup

import (
	"bytes"
	"math"
	"path/filepath"
	"strconv"
	"time"
)

// v2 reads cgroups of version 2, with one hierarchy.
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
		return out // the root cgroup has no such file
	}
	m := &Memory{Usage: used}
	keyed(filepath.Join(dir, "memory.stat"),
		field{"anon", &m.RSS}, field{"file", &m.Cache}, field{"file_mapped", &m.Mapped},
		field{"pgfault", &m.PageFaults}, field{"pgmajfault", &m.MajorPageFaults}, field{"inactive_file", &m.InactiveFile}, field{"active_file", &m.ActiveFile},
	)
	m.WorkingSet = minus(used, m.InactiveFile)
	m.Limit = value(filepath.Join(dir, "memory.max"))
	m.Swap = value(filepath.Join(dir, "memory.swap.current"))
	m.SwapLimit = value(filepath.Join(dir, "memory.swap.max"))
	out.Memory = m
	return out
}

func (v v2) detail(path string) Detail {
	dir := v.dir(path)
	var d Detail
	const no = math.MaxUint64
	user, system, periods, throttled, throttledMicros := uint64(no), uint64(no), uint64(no), uint64(no), uint64(no)
	bursts, burstMicros := uint64(no), uint64(no)
	keyed(filepath.Join(dir, "cpu.stat"), field{"user_usec", &user}, field{"system_usec", &system},
		field{"nr_periods", &periods}, field{"nr_throttled", &throttled}, field{"throttled_usec", &throttledMicros},
		field{"nr_bursts", &bursts}, field{"burst_usec", &burstMicros})
	if bursts != no && burstMicros != no {
		d.Bursts, d.BurstTime = &bursts, new(burstMicros*1000)
	}
	if user != no && system != no {
		d.UserCPU, d.SystemCPU = new(user*1000), new(system*1000)
	}
	if periods != no && throttled != no && throttledMicros != no {
		d.Periods, d.Throttled, d.ThrottledTime = &periods, &throttled, new(throttledMicros*1000)
	}
	var kills, limited, kernel uint64
	if keyed(filepath.Join(dir, "memory.events"), field{"oom_kill", &kills}, field{"max", &limited}) == 2 {
		d.OOMKills, d.MemoryLimited = &kills, &limited
	}
	if keyed(filepath.Join(dir, "memory.stat"), field{"kernel", &kernel}) == 1 {
		d.KernelMemory = &kernel
	}
	d.MemoryPeak = value(filepath.Join(dir, "memory.peak"))
	if reserved, ok := number(filepath.Join(dir, "memory.min")); ok && reserved > 0 {
		d.Reservation = &reserved
	}
	d.MaxThreads = value(filepath.Join(dir, "pids.max"))
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
	d.CPUPressure = ReadPressure(filepath.Join(dir, "cpu.pressure"))
	d.MemoryPressure = ReadPressure(filepath.Join(dir, "memory.pressure"))
	d.IOPressure = ReadPressure(filepath.Join(dir, "io.pressure"))
	return d
}

// ReadPressure reads a PSI file, with lines such as "some avg10=0.00 avg60=0.00 avg300=0.00 total=12".
// Those of the whole machine are in /proc/pressure.
func ReadPressure(path string) Pressure {
	var out Pressure
	var p page
	for rest := p.read(path); len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		which, _, _ := bytes.Cut(line, []byte(" "))
		_, total, _ := bytes.Cut(line, []byte(" total="))
		micros, ok := parse(total)
		switch {
		case !ok:
		case string(which) == "some":
			out.Some, out.SomeShare = new(micros*1000), pressureShare(line)
		case string(which) == "full":
			out.Full, out.FullShare = new(micros*1000), pressureShare(line)
		}
	}
	return out
}

func pressureShare(line []byte) PressureShare {
	percent := func(key string) float64 {
		_, value, _ := bytes.Cut(line, []byte(" "+key+"="))
		n, err := strconv.ParseFloat(string(firstWord(value)), 64)
		if err != nil {
			return 0
		}
		return n
	}
	return PressureShare{Avg10: percent("avg10"), Avg60: percent("avg60"), Avg300: percent("avg300")}
}

func (v v2) disks(path string) (out []Disk) {
	var p page
	for rest := p.read(filepath.Join(v.dir(path), "io.stat")); len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		device, pairs, _ := bytes.Cut(line, []byte(" "))
		d := Disk{Device: string(device)}
		found := false
		for len(pairs) > 0 {
			var pair []byte
			pair, pairs, _ = bytes.Cut(pairs, []byte(" "))
			key, text, _ := bytes.Cut(pair, []byte("="))
			n, ok := parse(text)
			if !ok {
				continue
			}
			found = true
			switch string(key) {
			case "rbytes":
				d.ReadBytes = n
			case "wbytes":
				d.WrittenBytes = n
			case "rios":
				d.Reads = n
			case "wios":
				d.Writes = n
			case "cost.usage", "cost.wait", "cost.indebt", "cost.indelay":
				d.addCost(string(key), n)
			}
		}
		if found { // there are lines without values
			out = append(out, d)
		}
	}
	return out
}

func (d *Disk) addCost(key string, micros uint64) {
	if d.Cost == nil {
		d.Cost = &DiskCost{}
	}
	switch key {
	case "cost.usage":
		d.Cost.Usage = micros
	case "cost.wait":
		d.Cost.Wait = micros
	case "cost.indebt":
		d.Cost.Debt = micros
	case "cost.indelay":
		d.Cost.Delay = micros
	}
}

// shares converts a weight of v2 (1 to 10000) to CPU shares of v1 (2 to 262144), by the formula of
// Kubernetes.
func shares(weight uint64) uint64 {
	if weight == 0 {
		return 0
	}
	return 2 + (weight-1)*262142/9999
}
