package metrics

import (
	"time"

	"berth/internal/telemetry/stats"
)

// opened has the metrics of what the processes of containers have open, and may open.
type opened struct{ descriptors, sockets, maxThreads, softLimits *family }

func newOpened() opened {
	return opened{
		descriptors: gauge("container_file_descriptors", "Open files, sockets included."),
		sockets:     gauge("container_sockets", "Open sockets."),
		maxThreads:  gauge("container_threads_max", "Processes and threads that there may be; 0 for any number."),
		softLimits:  gauge("container_ulimits_soft", "Soft limits of the first process; -1 for none."),
	}
}

func (o opened) all() []*family {
	return []*family{o.descriptors, o.sockets, o.maxThreads, o.softLimits}
}

// addProcesses adds the numbers of processes and threads. If the processes were not counted, each thread counts as one: the kernel
// makes no difference.
func (c *cadvisor) addProcesses(labels []label, u stats.Usage, running *stats.Processes) {
	c.threads.addIf(labels, u.Processes, u.At)
	if running == nil {
		c.processes.addIf(labels, u.Processes, u.At)
		return
	}
	c.processes.add(labels, float64(running.Count), u.At)
	c.opened.add(labels, u.At, running)
}

func (o opened) add(labels []label, at time.Time, running *stats.Processes) {
	o.descriptors.addIf(labels, running.Descriptors, at)
	o.sockets.addIf(labels, running.Sockets, at)
	if running.MaxOpenFiles != nil {
		o.softLimits.add(with(labels, "ulimit", "max_open_files"), float64(*running.MaxOpenFiles), at)
	}
}
