package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"berth/test/leftovers"
	"berth/test/netns"
)

const (
	// nodeName is the name of the node of the node suite, of its network namespace and of its cgroups: there is
	// one at a time.
	nodeName    = "berth-conformance"
	nodeAddress = "10.99.3.1"
	nodePods    = "10.100.0.0/22"
)

// runNodeSuite runs the node suite on one machine. The suite brings its own etcd and API server, and starts the kubelet.
func runNodeSuite(ctx context.Context, r suiteRun, out io.Writer) error {
	network, err := newNetwork(nodeName)
	if err != nil {
		return err
	}
	defer network.Close()
	m, err := startMachine(ctx, machineConfig{
		name: nodeName, network: network, address: nodeAddress, pods: nodePods,
		results: r.results, job: nodeSuite, options: r.options, programs: r.programs,
	}, out)
	if err != nil {
		return err
	}
	defer m.kill()
	return m.wait(ctx)
}

func clearNodeSuite() error { return leftovers.Remove(nodeName) }

// newNetwork makes the network of the machine: a node address and a default route, which servers look for to
// find their address, and no way out.
func newNetwork(name string) (*netns.Namespace, error) {
	network, err := netns.New(name)
	if err != nil {
		return nil, err
	}
	for _, command := range []string{
		"ip link add eth0 type veth peer name nowhere",
		"ip link set nowhere up",
		"ip link set eth0 up",
		"ip address add " + nodeAddress + "/24 dev eth0",
		"ip route add default via 10.99.3.254",
	} {
		words := strings.Fields(command)
		if _, err := network.Run(words[0], words[1:]...); err != nil {
			return nil, errors.Join(err, network.Remove())
		}
	}
	return network, nil
}
