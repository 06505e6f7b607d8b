package app

import (
	"context"

	v1 "k8s.io/api/core/v1"

	machine "berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/core/admit"
	"berth/internal/core/hostports"
	"berth/internal/host/kernel"
)

// capacity describes what this machine has for pods.
type capacity struct {
	kernel      string
	memory      int64 // bytes, all of it
	appArmor    bool  // the kernel confines by it
	allocatable v1.ResourceList
	sysctls     []string
	name        string
	features    *features // of the runtime
	// inCluster returns the Node as its cluster knows it, or nil.
	inCluster func() *v1.Node
	// reread has inCluster return what the cluster knows now. Nil without one.
	reread func(context.Context) error
	// pressure is what the machine runs out of. It is not measured without a cluster:
	// all pods are static then, and run in spite of it.
	pressure func() []v1.NodeConditionType
	// foreignPorts returns the host ports that pods of other agents on this machine occupy.
	foreignPorts func() []admit.ForeignPort
}

// nodeSettings returns what the configuration says of the Node.
func nodeSettings(c *config.Config) machine.Settings {
	return machine.Settings{
		Name: c.NodeName, Version: c.Version, Labels: c.Cluster.Labels, Taints: c.Cluster.Taints, ProviderID: c.Cluster.ProviderID,
		MaxPods: int64(c.Cluster.MaxPods), PodsPerCore: int64(c.Cluster.PodsPerCore), MaxImages: c.Cluster.MaxImages, Reserved: c.Reserved,
		Port: int32(c.API.Port), Limits: nodeLimits(c.Pressure),
	}
}

// nodeLimits returns how much has to be left of this machine.
func nodeLimits(p config.Pressure) machine.Thresholds {
	return machine.Thresholds{
		Memory: machine.Threshold(p.Memory), Disk: machine.Threshold(p.Disk), Inodes: machine.Threshold(p.Inodes),
		ImageDisk: machine.Threshold(p.ImageDisk), ImageInodes: machine.Threshold(p.ImageInodes), PIDs: machine.Threshold(p.PIDs),
	}
}

// newCapacity reads the machine once: processors and memory do not change. joined is nil without a
// cluster.
func newCapacity(c *config.Config, f *features, ports *hostports.Recorder, joined *cluster) (*capacity, error) {
	m, err := machine.Host{Storage: c.RootDir}.ReadResources()
	if err != nil {
		return nil, err
	}
	inCluster, pressure := func() *v1.Node { return nil }, func() []v1.NodeConditionType { return nil }
	var reread func(context.Context) error
	if joined != nil {
		inCluster, pressure, reread = joined.node.Node, joined.node.Pressure, joined.node.Reload
	}
	return &capacity{
		kernel: m.Kernel, memory: m.Memory, appArmor: kernel.HasAppArmor(), features: f, sysctls: c.UnsafeSysctls, name: c.NodeName,
		allocatable: machine.Allocatable(m, nodeSettings(c)), inCluster: inCluster, reread: reread, pressure: pressure,
		foreignPorts: ports.Foreign,
	}, nil
}

// forPods returns what all pods may have together.
func (c *capacity) forPods() v1.ResourceList { return c.allocatable }

// labels returns the labels of the Node. Without a cluster they are the ones that local volumes select by.
func (c *capacity) labels() map[string]string {
	if n := c.inCluster(); n != nil {
		return n.Labels
	}
	return machine.StandaloneLabels(c.name)
}

// admission describes this machine for the admission of pods.
func (c *capacity) admission() admit.Node {
	out := admit.Node{
		Name: c.name, Kernel: c.kernel, Allocatable: c.allocatable, UnsafeSysctls: c.sysctls,
		AppArmor: c.appArmor, SELinux: c.features.seLinux(), StrictGroups: c.features.strictGroups(), Pressure: c.pressure(), InCluster: c.reread != nil,
		ForeignPorts: c.foreignPorts(),
	}
	return out.InClusterAs(c.inCluster())
}
