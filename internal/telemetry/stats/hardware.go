package stats

import (
	"os"
	"path/filepath"
	"strings"
)

// DiskStats is the I/O of the whole machine on one block device. Times are in milliseconds.
type DiskStats struct {
	Device                                          string
	Reads, ReadsMerged, SectorsRead, ReadTime       uint64
	Writes, WritesMerged, SectorsWritten, WriteTime uint64
	InProgress, Time, WeightedTime                  uint64
}

// diskStats returns the block devices that were ever read or written.
func (m machine) diskStats() []DiskStats {
	content, err := os.ReadFile(filepath.Join(m.proc, "diskstats"))
	if err != nil {
		return nil
	}
	var out []DiskStats
	for line := range strings.Lines(string(content)) {
		// 8 0 sda 5 0 10 2 7 1 20 3 0 4 5, and more since Linux 4.18
		f := strings.Fields(line)
		if len(f) < 14 {
			continue
		}
		d := DiskStats{
			Device: "/dev/" + f[2],
			Reads:  number(f[3]), ReadsMerged: number(f[4]), SectorsRead: number(f[5]), ReadTime: number(f[6]),
			Writes: number(f[7]), WritesMerged: number(f[8]), SectorsWritten: number(f[9]), WriteTime: number(f[10]),
			InProgress: number(f[11]), Time: number(f[12]), WeightedTime: number(f[13]),
		}
		if d.Reads+d.Writes > 0 {
			out = append(out, d)
		}
	}
	return out
}

// Topology is the number of cores and sockets of the machine. 0: the kernel does not say.
type Topology struct{ PhysicalCores, Sockets int }

// topology counts the cores and sockets of the processors that are online.
func (m machine) topology() Topology {
	const cpus = "devices/system/cpu/cpu[0-9]*/topology"
	dirs, err := filepath.Glob(filepath.Join(m.sys, cpus))
	if err != nil {
		return Topology{}
	}
	sockets, cores := map[string]bool{}, map[string]bool{}
	for _, dir := range dirs {
		socket, err := os.ReadFile(filepath.Join(dir, "physical_package_id"))
		if err != nil {
			continue
		}
		core, err := os.ReadFile(filepath.Join(dir, "core_id"))
		if err != nil {
			continue
		}
		sockets[string(socket)], cores[string(socket)+string(core)] = true, true
	}
	return Topology{PhysicalCores: len(cores), Sockets: len(sockets)}
}
