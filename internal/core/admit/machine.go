package admit

import v1 "k8s.io/api/core/v1"

// Machine is the machine of the agent. Some facts of it change while the agent runs.
type Machine struct {
	Fixed Node // the facts that do not change
	// Runtime is what containers can have; it is known once the runtime has come up.
	Runtime interface {
		StrictGroups() bool
	}
	// InCluster returns the Node object. It is nil without a cluster, or before it is known.
	InCluster func() *v1.Node
	// Pressure returns the resources that the machine is short of.
	Pressure func() []v1.NodeConditionType
	// ForeignPorts returns the host ports that pods of other agents on this machine occupy.
	ForeignPorts func() []ForeignPort
}

// Node returns the machine as it is now.
func (m Machine) Node() Node {
	n := m.Fixed
	n.StrictGroups = m.Runtime.StrictGroups()
	n.Pressure, n.ForeignPorts = m.Pressure(), m.ForeignPorts()
	return n.WithNodeObject(m.InCluster())
}
