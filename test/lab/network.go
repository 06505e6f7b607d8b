package lab

import (
	"fmt"
	"strings"

	"berth/test/netns"
)

const (
	planeAddress = "10.99.0.1"
	bridge       = "lan"
	uplink       = "eth0" // a machine's link to the bridge
)

// address is the address of a machine. Machines count from one.
func address(machine int) string { return fmt.Sprintf("10.99.0.%d", 10+machine) }

// podRange holds the addresses of the pods of a machine.
func podRange(machine int) string { return fmt.Sprintf("10.202.%d.0/24", machine) }

// raiseBridge makes the bridge that all machines are plugged into, in the namespace of the plane.
func raiseBridge(plane *netns.Namespace) error {
	return all(plane,
		"ip link add "+bridge+" type bridge",
		"ip address add "+planeAddress+"/24 dev "+bridge,
		"ip link set "+bridge+" up",
	)
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
