package node

import (
	v1 "k8s.io/api/core/v1"
)

// Facts are what is known of this machine.
type Facts struct {
	Machine   Machine
	Runtime   Runtime
	Addresses []string // the ones that others reach it by, the preferred one first
	Volumes   Volumes
}

// Machine is what the kernel and the files of the machine tell. What they do not
// tell is left empty.
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

// Runtime is what the container runtime tells of itself.
type Runtime struct {
	Name     string
	Version  string
	Handlers []v1.NodeRuntimeHandler
	Features *v1.NodeFeatures // nil: it does not tell
	Images   []v1.ContainerImage
}

// Health is how this machine is doing. An error says why it can't run pods.
type Health struct {
	Runtime  error
	Network  error
	SyncLoop error
	Shutdown error // why it goes down, if it does
	Pressure Pressure
}

// Pressure is what the machine runs out of.
type Pressure struct{ Memory, Disk, PIDs bool }

// conditions are those that a Node then has.
func (p Pressure) conditions() []v1.NodeConditionType {
	var out []v1.NodeConditionType
	for _, c := range pressures {
		if c.of(p) {
			out = append(out, c.kind)
		}
	}
	return out
}
