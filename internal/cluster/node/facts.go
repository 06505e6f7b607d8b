package node

import (
	v1 "k8s.io/api/core/v1"
)

// Facts are the properties of this machine that its Node shows.
type Facts struct {
	Machine   Machine
	Runtime   Runtime
	Addresses []string // by which other machines reach it, the preferred one first
	Volumes   Volumes
}

// Machine holds the facts that come from the kernel and from files. A fact that is not known is
// empty.
type Machine struct {
	CPUs      int
	Memory    int64           // bytes
	Swap      int64           // bytes
	Storage   int64           // bytes of the file system that pods write to
	HugePages map[int64]int64 // size of a page → bytes in such pages

	MachineID  string
	SystemUUID string
	BootID     string
	Kernel     string
	OSImage    string
}

// Runtime holds the facts that come from the container runtime.
type Runtime struct {
	Name     string
	Version  string
	Handlers []v1.NodeRuntimeHandler
	Features *v1.NodeFeatures // nil: the runtime does not report them
	Images   []v1.ContainerImage
}

// Health is the health of this machine. An error is why it can't run pods.
type Health struct {
	Runtime  error
	Network  error
	SyncLoop error
	Shutdown error // why the machine shuts down; nil: it does not
	Pressure Pressure
}

// Pressure holds the resources that the machine runs out of.
type Pressure struct{ Memory, Disk, PIDs bool }

// conditions returns the types of the Node conditions that are True under this pressure.
func (p Pressure) conditions() []v1.NodeConditionType {
	var out []v1.NodeConditionType
	for _, c := range pressures {
		if c.of(p) {
			out = append(out, c.kind)
		}
	}
	return out
}
