package stats

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/cgroup"
)

// Snapshot is the resource usage of the node and its pods at a moment. A nil field was not measured.
type Snapshot struct {
	At   time.Time
	Node Node
	Pods []Pod // by namespace and name

	hasRates bool
}

// Usage is of a pod, a container or the node.
type Usage struct {
	cgroup.Usage
	Rate *uint64 // of the CPU, in nanoseconds of one core per second
}

// Node is this machine.
type Node struct {
	Name   string
	Booted time.Time
	Usage

	Cores          int
	MemoryTotal    uint64
	SwapTotal      *uint64
	Detail         cgroup.Detail
	Disks          []Disk
	DiskStats      []DiskStats
	Topology       Topology
	Network        *Network
	MaxProcesses   *uint64
	Pods           *SystemContainer // all of them together
	Agent          *SystemContainer // this process
	Runtime        *SystemContainer // the cgroup of the container runtime
	System         *SystemContainer // the cgroup of processes of the machine
	Root           *Filesystem      // of the root directory, which pods share
	Images, Layers *Filesystem      // of the runtime
}

// SystemContainer is the usage of a part of the machine that the Summary API shows beside the node as a whole.
type SystemContainer struct {
	Usage
	Detail cgroup.Detail
}

// Pod is the usage of a running pod.
type Pod struct {
	UID             pod.UID
	Namespace, Name string
	SandboxID       string
	Cgroup          string
	Started         time.Time
	Usage
	Detail     cgroup.Detail
	Containers []Container // the running ones, by name
	Network    *Network
	Volumes    []Volume

	spec          *v1.PodSpec
	sandboxCgroup string
}

// lacksRates reports whether there is but one sample of something.
func (p Pod) lacksRates() bool {
	return p.lacksRate() || slices.ContainsFunc(p.Containers, func(c Container) bool { return c.lacksRate() })
}

func (u Usage) lacksRate() bool { return u.CPU != nil && u.Rate == nil }

// Container is the usage of a running container.
type Container struct {
	ID, Name, Image string
	Cgroup          string
	Started         time.Time
	Usage
	Detail   cgroup.Detail
	Disks    []Disk
	Running  *Processes  // nil: they are too many, or were not measured
	Writable *Filesystem // its own layer
	Logs     *Filesystem

	logDir string
}

// Disk is the I/O of a cgroup on one block device.
type Disk struct {
	cgroup.Disk
	Name string // such as /dev/sda; the number of the device if it has no name
}

// Volume is the usage of a volume of a pod.
type Volume struct {
	Name  string
	Claim string // the name of the PersistentVolumeClaim, or ""
	Disk  bool   // the volume is on the file system that pods share
	Filesystem
}

// Filesystem is how much of a file system is used, by one or by all. Bytes.
type Filesystem struct {
	At                             time.Time
	Used, Available, Capacity      *uint64
	InodesUsed, InodesFree, Inodes *uint64
}

// Network has the counters of network interfaces.
type Network struct {
	At         time.Time
	Default    string // the interface of the default route, or ""
	Interfaces []Interface
}

// Interface is a network interface.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}
