package app

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/core/admit"
	"berth/internal/core/hostports"
	"berth/internal/host/kernel"
	"berth/internal/runtime/features"
)

// capacity describes what this machine has for pods.
type capacity struct {
	kernel      string
	memory      int64 // bytes, all of it
	swap        int64 // bytes, all of it
	appArmor    bool  // the kernel has it
	allocatable v1.ResourceList
	sysctls     []string
	name        string
	features    *features.Features // of the runtime
	// inCluster returns the Node as its cluster knows it, or nil.
	inCluster func() *v1.Node
	// reload reads the Node anew, for inCluster. Nil without a cluster.
	reload func(context.Context) error
	// pressure returns the resources that the machine is short of. It is not measured without a cluster:
	// all pods are static then, and run in spite of it.
	pressure func() []v1.NodeConditionType
	// foreignPorts returns the host ports that pods of other agents on this machine occupy.
	foreignPorts func() []admit.ForeignPort
}

// nodeSettings returns what the configuration says of the Node.
func nodeSettings(c *config.Config) node.Settings {
	return node.Settings{
		Name: c.NodeName, Version: c.Version, Labels: c.Cluster.Labels, Taints: c.Cluster.Taints, ProviderID: c.Cluster.ProviderID,
		MaxPods: int64(c.Cluster.MaxPods), PodsPerCore: int64(c.Cluster.PodsPerCore), MaxImages: c.Cluster.MaxImages, Reserved: c.Reserved,
		Port: int32(c.API.Port), Limits: nodeLimits(c.Pressure),
	}
}

// nodeLimits returns how much has to be left of this machine.
func nodeLimits(p config.Pressure) node.Thresholds {
	return node.Thresholds{
		Memory: node.Threshold(p.Memory), Disk: node.Threshold(p.Disk), Inodes: node.Threshold(p.Inodes),
		ImageDisk: node.Threshold(p.ImageDisk), ImageInodes: node.Threshold(p.ImageInodes), PIDs: node.Threshold(p.PIDs),
	}
}

// newCapacity reads the machine once: processors and memory do not change. joined is nil without a
// cluster.
func newCapacity(c *config.Config, f *features.Features, ports *hostports.Recorder, joined *cluster) (*capacity, error) {
	m, err := node.Host{Storage: c.RootDir}.ReadResources()
	if err != nil {
		return nil, err
	}
	inCluster, pressure := func() *v1.Node { return nil }, func() []v1.NodeConditionType { return nil }
	var reread func(context.Context) error
	if joined != nil {
		inCluster, pressure, reread = joined.node.Node, joined.node.Pressure, joined.node.Reload
	}
	return &capacity{
		kernel: m.Kernel, memory: m.Memory, swap: m.Swap, appArmor: kernel.HasAppArmor(), features: f, sysctls: c.UnsafeSysctls, name: c.NodeName,
		allocatable: node.Allocatable(m, nodeSettings(c)), inCluster: inCluster, reload: reread, pressure: pressure,
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
	return node.StandaloneLabels(c.name)
}

// admission describes this machine for the admission of pods.
func (c *capacity) admission() admit.Node {
	out := admit.Node{
		Name: c.name, Kernel: c.kernel, Allocatable: c.allocatable, UnsafeSysctls: c.sysctls,
		AppArmor: c.appArmor, SELinux: c.features.SELinux(), StrictGroups: c.features.StrictGroups(), Pressure: c.pressure(), InCluster: c.reload != nil,
		ForeignPorts: c.foreignPorts(),
	}
	return out.InClusterAs(c.inCluster())
}
