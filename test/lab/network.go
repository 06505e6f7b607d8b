package lab

import (
	"fmt"
	"strings"

	"berth/test/netns"
)

const (
	planeAddress = "10.99.0.1"
	bridge       = "lan"
	uplink       = "eth0" // a node's link to the bridge
)

// address is the address of a node. Nodes count from one.
func address(node int) string { return fmt.Sprintf("10.99.0.%d", 10+node) }

// podRange holds the addresses of a node's pods.
func podRange(node int) string { return fmt.Sprintf("10.202.%d.0/24", node) }

// raiseBridge makes the bridge that all nodes are plugged into, in the namespace of the plane.
func raiseBridge(plane *netns.Namespace) error {
	return all(plane,
		"ip link add "+bridge+" type bridge",
		"ip address add "+planeAddress+"/24 dev "+bridge,
		"ip link set "+bridge+" up",
	)
}

// plugIn connects a node with the plane.
func plugIn(plane, node *netns.Namespace, number int) error {
	port := fmt.Sprintf("port%d", number)
	if err := all(plane,
		"ip link add "+port+" type veth peer name "+uplink+" netns "+node.Name(),
		"ip link set "+port+" master "+bridge+" up",
	); err != nil {
		return err
	}
	return all(node,
		"ip address add "+address(number)+"/24 dev "+uplink,
		"ip link set "+uplink+" up",
		"ip route add default via "+planeAddress,
	)
}

// showWay shows a machine where the pods of a node are.
func showWay(machine *netns.Namespace, number int) error {
	return all(machine, "ip route add "+podRange(number)+" via "+address(number))
}

// all runs commands, none of which has an argument with a space.
func all(ns *netns.Namespace, commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if _, err := ns.Run(words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}
