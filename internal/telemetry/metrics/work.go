package metrics

import (
	"strings"
	"time"

	"berth/internal/pods/cgroup"
	"berth/internal/telemetry/stats"
)

// work has the metrics of disk I/O and of pressure (PSI) of cgroups.
type work struct {
	readBytes, writtenBytes, reads, writes   *family
	devices                                  *family // bytes once more, as cAdvisor has them
	costUsage, costWait, costDebt, costDelay *family
	disks                                    diskWork
	cpu, memory, io                          waits
}

// diskWork has the metrics of disk I/O that the kernel counts for the machine as a whole, and for no cgroup.
type diskWork struct {
	readSectors, writtenSectors, readsMerged, writesMerged *family
	readTime, writeTime, inProgress, time, weightedTime    *family
}

// waits are the two lines of a pressure.
type waits struct{ some, full *family }

func newWork() work {
	return work{
		readBytes:    counter("container_fs_reads_bytes_total", "Bytes that were read from a disk."),
		writtenBytes: counter("container_fs_writes_bytes_total", "Bytes that were written to a disk."),
		reads:        counter("container_fs_reads_total", "Reads from a disk."),
		writes:       counter("container_fs_writes_total", "Writes to a disk."),
		devices:      counter("container_blkio_device_usage_total", "Bytes that were read from a disk or written to it."),
		costUsage:    counter("container_fs_io_cost_usage_seconds_total", "Time of a disk that was used, by the controller iocost."),
		costWait:     counter("container_fs_io_cost_wait_seconds_total", "Time for which the controller iocost made I/O wait."),
		costDebt:     counter("container_fs_io_cost_indebt_seconds_total", "Time in debt of the controller iocost."),
		costDelay:    counter("container_fs_io_cost_indelay_seconds_total", "Time of delays for a debt of the controller iocost."),
		disks: diskWork{
			readSectors:    counter("container_fs_sector_reads_total", "Sectors that were read from a disk."),
			writtenSectors: counter("container_fs_sector_writes_total", "Sectors that were written to a disk."),
			readsMerged:    counter("container_fs_reads_merged_total", "Reads that were merged with others."),
			writesMerged:   counter("container_fs_writes_merged_total", "Writes that were merged with others."),
			readTime:       counter("container_fs_read_seconds_total", "Time of all reads from a disk."),
			writeTime:      counter("container_fs_write_seconds_total", "Time of all writes to a disk."),
			inProgress:     gauge("container_fs_io_current", "Reads and writes of a disk that go on."),
			time:           counter("container_fs_io_time_seconds_total", "Time in which a disk worked."),
			weightedTime:   counter("container_fs_io_time_weighted_seconds_total", "Time in which a disk worked, times its reads and writes that went on."),
		},
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
	d := w.disks
	return []*family{
		w.readBytes, w.writtenBytes, w.reads, w.writes, w.devices, w.costUsage, w.costWait, w.costDebt, w.costDelay,
		d.readSectors, d.writtenSectors, d.readsMerged, d.writesMerged, d.readTime, d.writeTime, d.inProgress, d.time, d.weightedTime,
		w.cpu.some, w.cpu.full, w.memory.some, w.memory.full, w.io.some, w.io.full,
	}
}

func (w waits) add(labels []label, p cgroup.Pressure, at time.Time) {
	w.some.addSeconds(labels, p.Some, at)
	w.full.addSeconds(labels, p.Full, at)
}

func (c *cadvisor) addWork(labels []label, at time.Time, d cgroup.Detail, disks []stats.Disk) {
	c.user.addSeconds(labels, d.UserCPU, at)
	c.system.addSeconds(labels, d.SystemCPU, at)
	c.work.cpu.add(labels, d.CPUPressure, at)
	c.work.memory.add(labels, d.MemoryPressure, at)
	c.work.io.add(labels, d.IOPressure, at)
	for _, disk := range disks {
		labels := with(labels, "device", disk.Name)
		c.work.readBytes.add(labels, float64(disk.ReadBytes), at)
		c.work.writtenBytes.add(labels, float64(disk.WrittenBytes), at)
		c.work.reads.add(labels, float64(disk.Reads), at)
		c.work.writes.add(labels, float64(disk.Writes), at)
		c.work.addDevice(labels, at, disk)
	}
}

// addDevice adds the bytes of a disk by operation, and the times of the controller iocost if there is one.
func (w work) addDevice(labels []label, at time.Time, d stats.Disk) {
	major, minor, _ := strings.Cut(d.Device, ":")
	numbered := with(with(labels, "major", major), "minor", minor)
	w.devices.add(with(numbered, "operation", "Read"), float64(d.ReadBytes), at)
	w.devices.add(with(numbered, "operation", "Write"), float64(d.WrittenBytes), at)
	if d.Cost == nil {
		return
	}
	for f, micros := range map[*family]uint64{w.costUsage: d.Cost.Usage, w.costWait: d.Cost.Wait, w.costDebt: d.Cost.Debt, w.costDelay: d.Cost.Delay} {
		f.add(labels, float64(micros)/float64(time.Second/time.Microsecond), at)
	}
}

// addDiskStats adds the I/O of the machine.
func (w work) addDiskStats(labels []label, at time.Time, disks []stats.DiskStats) {
	millis := func(n uint64) float64 { return float64(n) / float64(time.Second/time.Millisecond) }
	for _, d := range disks {
		labels := with(labels, "device", d.Device)
		for f, value := range map[*family]float64{
			w.disks.readSectors: float64(d.SectorsRead), w.disks.writtenSectors: float64(d.SectorsWritten),
			w.disks.readsMerged: float64(d.ReadsMerged), w.disks.writesMerged: float64(d.WritesMerged),
			w.disks.readTime: millis(d.ReadTime), w.disks.writeTime: millis(d.WriteTime), w.disks.inProgress: float64(d.InProgress),
			w.disks.time: millis(d.Time), w.disks.weightedTime: millis(d.WeightedTime),
		} {
			f.add(labels, value, at)
		}
	}
}
