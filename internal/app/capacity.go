package app

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cluster/node"
	"berth/internal/config"
	configfeatures "berth/internal/config/features"
	"berth/internal/core/admit"
	"berth/internal/core/hostports"
	"berth/internal/host/kernel"
	"berth/internal/runtime/features"
)

// capacity holds the resources of this machine, and its admission facts.
type capacity struct {
	memory      int64 // bytes, all of it
	swap        int64 // bytes, all of it
	allocatable v1.ResourceList
	machine     admit.Machine
	// reload reads the Node anew from the API server. Nil without a cluster.
	reload func(context.Context) error
}

// nodeSettings returns the settings of the Node from the configuration.
func nodeSettings(c *config.Config) node.Settings {
	return node.Settings{
		Name: c.NodeName, Version: c.Version, Labels: c.Cluster.Labels, Taints: c.Cluster.Taints, ProviderID: c.Cluster.ProviderID,
		DeclaredFeatures: declaredFeatures(c.Gates),
		ExternalCloud:    c.Cluster.ExternalCloud, NodeIPs: c.NodeIPs,
		MaxPods: int64(c.Cluster.MaxPods), PodsPerCore: int64(c.Cluster.PodsPerCore), MaxImages: c.Cluster.MaxImages, Reserved: c.Reserved,
		Port: int32(c.API.Port), Limits: nodeLimits(c.Pressure),
	}
}

// declaredFeatures returns the features that the scheduler and the API server ask a node for, and that it has: pods that
// restart all of their containers, and WebSockets from the API server on.
func declaredFeatures(gates configfeatures.Gates) []string {
	if !gates.Enabled("NodeDeclaredFeatures") {
		return nil
	}
	var out []string
	for _, name := range []string{"ExtendWebSocketsToKubelet", "RestartAllContainersOnContainerExits"} {
		if gates.Enabled(name) {
			out = append(out, name)
		}
	}
	return out
}

// nodeLimits returns the eviction thresholds of the configuration in the form of package node.
func nodeLimits(p config.Pressure) node.Thresholds {
	return node.Thresholds{
		Memory: node.Threshold(p.Memory), Disk: node.Threshold(p.Disk), Inodes: node.Threshold(p.Inodes),
		ImageDisk: node.Threshold(p.ImageDisk), ImageInodes: node.Threshold(p.ImageInodes), PIDs: node.Threshold(p.PIDs),
	}
}

// newCapacity reads the machine once: processors and memory do not change. joined is nil without a
// cluster. Pressure is not measured then, since all pods are static, and static pods are admitted
// in spite of it.
func newCapacity(c *config.Config, f *features.Features, ports *hostports.Recorder, joined *cluster) (*capacity, error) {
	m, err := node.Host{Storage: c.RootDir}.ReadResources()
	if err != nil {
		return nil, err
	}
	allocatable := node.Allocatable(m, nodeSettings(c))
	out := &capacity{memory: m.Memory, swap: m.Swap, allocatable: allocatable, machine: admit.Machine{
		Fixed: admit.Node{
			Name: c.NodeName, Kernel: m.Kernel, Allocatable: allocatable, UnsafeSysctls: c.UnsafeSysctls, AppArmor: kernel.HasAppArmor(), InCluster: joined != nil,
		},
		Runtime: f, InCluster: func() *v1.Node { return nil }, Pressure: func() []v1.NodeConditionType { return nil }, ForeignPorts: ports.Foreign,
	}}
	if joined != nil {
		out.machine.InCluster, out.machine.Pressure, out.reload = joined.node.Node, joined.node.Pressure, joined.node.Reload
	}
	return out, nil
}

// forPods returns the resources that all pods together may request.
func (c *capacity) forPods() v1.ResourceList { return c.allocatable }

// labels returns the labels of the Node. Without a cluster they are the labels that local volumes select
// by.
func (c *capacity) labels() map[string]string {
	if n := c.machine.InCluster(); n != nil {
		return n.Labels
	}
	return node.StandaloneLabels(c.machine.Fixed.Name)
}
