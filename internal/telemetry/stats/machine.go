package stats

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/internal/lib/podfile"
	"berth/internal/pods/cgroup"
)

// machine reads the kernel's counters of the machine as a whole.
type machine struct{ proc, sys string }

// ticks is how many of the kernel's units of CPU time make a second, on every
// platform that Linux has a user space for.
const ticks = 100

func (m machine) read() (Node, error) {
	memory, err := m.meminfo()
	if err != nil {
		return Node{}, err
	}
	total, free := memory["MemTotal"], memory["MemFree"]
	if total == 0 {
		return Node{}, errors.New("read the memory of the machine: the kernel shows no total")
	}
	used := total - min(total, free)
	n := Node{Cores: runtime.NumCPU(), MemoryTotal: total, Agent: agentUsage()}
	n.At = time.Now()
	n.Memory = &cgroup.Memory{
		Usage: used, WorkingSet: used - min(used, memory["Inactive(file)"]),
		RSS: memory["AnonPages"], Cache: memory["Cached"], Mapped: memory["Mapped"],
		ActiveFile: memory["Active(file)"], InactiveFile: memory["Inactive(file)"],
	}
	if swap := memory["SwapTotal"]; swap > 0 {
		n.SwapTotal = &swap
		n.Memory.Swap = new(swap - min(swap, memory["SwapFree"]))
	}
	m.pageFaults(n.Memory)
	n.CPU, n.Booted = m.cpu()
	n.Processes, n.MaxProcesses = m.processes()
	n.Network = m.network("self")
	return n, nil
}

// meminfo is in bytes.
func (m machine) meminfo() (map[string]uint64, error) {
	content, err := os.ReadFile(filepath.Join(m.proc, "meminfo"))
	if err != nil {
		return nil, fmt.Errorf("read the memory of the machine: %w", err)
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(content)) {
		key, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 2 && fields[1] == "kB" {
			out[key] = number(fields[0]) << 10
		}
	}
	return out, nil
}

func (m machine) pageFaults(into *cgroup.Memory) {
	content, err := os.ReadFile(filepath.Join(m.proc, "vmstat"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(content)) {
		switch key, rest, _ := strings.Cut(strings.TrimSpace(line), " "); key {
		case "pgfault":
			into.PageFaults = number(rest)
		case "pgmajfault":
			into.MajorPageFaults = number(rest)
		}
	}
}

// cpu returns the time that all processors worked, and when the machine started.
func (m machine) cpu() (worked *uint64, booted time.Time) {
	content, err := os.ReadFile(filepath.Join(m.proc, "stat"))
	if err != nil {
		return nil, time.Time{}
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 8 && fields[0] == "cpu":
			// user, nice, system, (idle, iowait,) irq, softirq, steal
			sum := uint64(0)
			for _, i := range []int{1, 2, 3, 6, 7, 8} {
				sum += number(fields[i])
			}
			worked = new(sum * uint64(time.Second/ticks))
		case len(fields) == 2 && fields[0] == "btime":
			booted = time.Unix(int64(number(fields[1])), 0)
		}
	}
	return worked, booted
}

func (m machine) processes() (running, most *uint64) {
	if content, err := os.ReadFile(filepath.Join(m.proc, "loadavg")); err == nil {
		// 0.20 0.18 0.12 1/80 11206
		if fields := strings.Fields(string(content)); len(fields) > 3 {
			_, all, _ := strings.Cut(fields[3], "/")
			running = new(number(all))
		}
	}
	if content, err := os.ReadFile(filepath.Join(m.proc, "sys/kernel/pid_max")); err == nil {
		most = new(number(strings.TrimSpace(string(content))))
	}
	return running, most
}

// pressure reads the pressure stall information of the machine as a whole, which the kernel has
// even where cgroups have none.
func (m machine) pressure(into *cgroup.Detail) {
	for name, to := range map[string]*cgroup.Pressure{"cpu": &into.CPUPressure, "memory": &into.MemoryPressure, "io": &into.IOPressure} {
		*to = cgroup.ReadPressure(filepath.Join(m.proc, "pressure", name))
	}
}

// named adds the names of the devices.
func named(disks []cgroup.Disk) []Disk {
	var out []Disk
	for _, d := range disks {
		name := d.Device
		// The link ends with the name that the device has below /dev.
		if to, err := os.Readlink("/sys/dev/block/" + d.Device); err == nil {
			name = "/dev/" + filepath.Base(to)
		}
		out = append(out, Disk{Disk: d, Name: name})
	}
	return out
}

// agentUsage returns the usage of this process.
func agentUsage() *SystemContainer {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return nil
	}
	u := &SystemContainer{}
	u.At = time.Now()
	u.CPU = new(uint64(r.Utime.Nano() + r.Stime.Nano()))
	content, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(content)); err == nil && len(fields) > 1 {
		resident := number(fields[1]) * uint64(os.Getpagesize())
		u.Memory = &cgroup.Memory{
			Usage: resident, WorkingSet: resident, RSS: resident,
			PageFaults: uint64(r.Minflt + r.Majflt), MajorPageFaults: uint64(r.Majflt),
		}
	}
	return u
}

// networkOf is the network of a process. A pod of which the process is gone has
// none to report.
func (m machine) networkOf(pid int) *Network {
	if pid <= 0 {
		return nil
	}
	return m.network(strconv.Itoa(pid))
}

// maxNetwork is how many bytes are read of interfaces and routes. A container with NET_ADMIN can
// make any number of them; a pod with more has no network stats.
const maxNetwork = 1 << 20

func (m machine) network(process string) *Network {
	content, err := podfile.Read(filepath.Join(m.proc, process), "net/dev", maxNetwork)
	if err != nil {
		return nil
	}
	n := &Network{At: time.Now(), Default: m.defaultInterface(process)}
	for scan := bufio.NewScanner(bytes.NewReader(content)); scan.Scan(); {
		name, rest, ok := strings.Cut(scan.Text(), ":")
		name = strings.TrimSpace(name)
		f := strings.Fields(rest)
		// The other ends of pods' interfaces, and loopback, are no network of the node.
		if !ok || len(f) < 12 || name == "lo" || strings.HasPrefix(name, "veth") {
			continue
		}
		n.Interfaces = append(n.Interfaces, Interface{
			Name:    name,
			RxBytes: number(f[0]), RxPackets: number(f[1]), RxErrors: number(f[2]), RxDropped: number(f[3]),
			TxBytes: number(f[8]), TxPackets: number(f[9]), TxErrors: number(f[10]), TxDropped: number(f[11]),
		})
	}
	return n
}

func (m machine) defaultInterface(process string) string {
	content, err := podfile.Read(filepath.Join(m.proc, process), "net/route", maxNetwork)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		// name, destination, gateway, ..., mask is the eighth
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
