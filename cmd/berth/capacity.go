package main

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/admit"
	"berth/internal/config"
	machine "berth/internal/node"
)

// capacity is what this machine has for pods.
type capacity struct {
	kernel      string
	allocatable v1.ResourceList
	sysctls     []string
	name        string
	// inCluster returns the Node as its cluster knows it, or nil.
	inCluster func() *v1.Node
}

// nodeSettings is what the owner of this machine wants its Node to be.
func nodeSettings(c *config.Config) machine.Settings {
	return machine.Settings{
		Name: c.NodeName, Version: version, Labels: c.Cluster.Labels, Taints: c.Cluster.Taints, ProviderID: c.Cluster.ProviderID,
		MaxPods: int64(c.Cluster.MaxPods), PodsPerCore: int64(c.Cluster.PodsPerCore), MaxImages: c.Cluster.MaxImages, Reserved: c.Reserved,
	}
}

// newCapacity looks at the machine once: processors and memory do not change.
func newCapacity(c *config.Config) (*capacity, error) {
	m, err := machine.Host{Storage: c.RootDir}.Read()
	if err != nil {
		return nil, err
	}
	return &capacity{
		kernel: m.Kernel, sysctls: c.UnsafeSysctls, name: c.NodeName,
		allocatable: machine.Allocatable(m, nodeSettings(c)),
		inCluster:   func() *v1.Node { return nil },
	}, nil
}

// forPods is what all pods may have together.
func (c *capacity) forPods() v1.ResourceList { return c.allocatable }

// labels are those of the Node, or nil without a cluster.
func (c *capacity) labels() map[string]string {
	if n := c.inCluster(); n != nil {
		return n.Labels
	}
	return nil
}

// admission is this machine as admission looks at it.
func (c *capacity) admission() admit.Node {
	out := admit.Node{
		Name: c.name, Kernel: c.kernel, Allocatable: c.allocatable, UnsafeSysctls: c.sysctls,
	}
	if n := c.inCluster(); n != nil {
		out.Labels, out.Taints = n.Labels, n.Spec.Taints
	}
	return out
}
