package metrics

import (
	"time"

	"berth/internal/pods/cgroup"
)

// work has the metrics of disk I/O and of pressure (PSI) of cgroups.
type work struct {
	readBytes, writtenBytes, reads, writes *family
	cpu, memory, io                        waits
}

// waits are the two lines of a pressure.
type waits struct{ some, full *family }

func newWork() work {
	return work{
		readBytes:    counter("container_fs_reads_bytes_total", "Bytes that were read from a disk."),
		writtenBytes: counter("container_fs_writes_bytes_total", "Bytes that were written to a disk."),
		reads:        counter("container_fs_reads_total", "Reads from a disk."),
		writes:       counter("container_fs_writes_total", "Writes to a disk."),
		cpu: waits{
			counter("container_pressure_cpu_waiting_seconds_total", "Time in which something waited for a processor."),
			counter("container_pressure_cpu_stalled_seconds_total", "Time in which everything waited for a processor."),
		},
		memory: waits{
			counter("container_pressure_memory_waiting_seconds_total", "Time in which something waited for memory."),
			counter("container_pressure_memory_stalled_seconds_total", "Time in which everything waited for memory."),
		},
		io: waits{
			counter("container_pressure_io_waiting_seconds_total", "Time in which something waited for a disk."),
			counter("container_pressure_io_stalled_seconds_total", "Time in which everything waited for a disk."),
		},
	}
}

func (w work) all() []*family {
	return []*family{
		w.readBytes, w.writtenBytes, w.reads, w.writes,
		w.cpu.some, w.cpu.full, w.memory.some, w.memory.full, w.io.some, w.io.full,
	}
}

func (w waits) add(labels []label, p cgroup.Pressure, at time.Time) {
	w.some.addSeconds(labels, p.Some, at)
	w.full.addSeconds(labels, p.Full, at)
}

func (c *cadvisor) addWork(labels []label, at time.Time, d cgroup.Detail, disks []cgroup.Disk) {
	c.user.addSeconds(labels, d.UserCPU, at)
	c.system.addSeconds(labels, d.SystemCPU, at)
	c.work.cpu.add(labels, d.CPUPressure, at)
	c.work.memory.add(labels, d.MemoryPressure, at)
	c.work.io.add(labels, d.IOPressure, at)
	for _, disk := range disks {
		labels := with(labels, "device", disk.Device)
		c.work.readBytes.add(labels, float64(disk.ReadBytes), at)
		c.work.writtenBytes.add(labels, float64(disk.WrittenBytes), at)
		c.work.reads.add(labels, float64(disk.Reads), at)
		c.work.writes.add(labels, float64(disk.Writes), at)
	}
}
