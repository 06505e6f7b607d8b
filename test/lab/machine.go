package lab

import (
	"errors"
	"fmt"
	"slices"

	"berth/test/netns"
)

// Machine is a machine in the network of a lab: it reaches the plane, the other machines, and the pods of all of them.
type Machine struct {
	Name      string
	Address   string
	PodRange  string // the addresses of its pods
	Namespace *netns.Namespace

	namespace string // the name of the network namespace
	port      string // the link of the plane's bridge that leads to the machine
}

// AddMachine adds a machine without an agent, for programs that the caller starts there. The lab does not know of its
// processes: the caller ends them, and removes the namespace after Close.
func (l *Lab) AddMachine(name string) (*Machine, error) {
	m, err := l.newMachine(name)
	if err != nil {
		return nil, err
	}
	if err := m.makeNamespace(); err != nil {
		return nil, err
	}
	if err := l.connect(m); err != nil {
		return nil, errors.Join(fmt.Errorf("connect machine %s: %w", name, err), m.Namespace.Remove())
	}
	return m, nil
}

// newMachine returns a machine with the next addresses. It has no namespace yet.
func (l *Lab) newMachine(name string) (*Machine, error) {
	if name == "" || slices.ContainsFunc(l.machines, func(m *Machine) bool { return m.Name == name }) {
		return nil, errors.New("a name is needed that no other machine has")
	}
	number := len(l.machines) + 1
	return &Machine{
		Name: name, Address: address(number), PodRange: podRange(number),
		namespace: NamespaceOf(l.config.Name, name), port: fmt.Sprintf("port%d", number),
	}, nil
}

// NamespaceOf is the name of the network namespace of a machine.
func NamespaceOf(lab, machine string) string { return lab + "." + machine }

func (m *Machine) makeNamespace() (err error) {
	m.Namespace, err = netns.New(m.namespace)
	return err
}

// connect plugs a machine into the bridge of the plane, and shows it and all others the way to each other's pods.
func (l *Lab) connect(m *Machine) error {
	if err := all(l.plane,
		"ip link add "+m.port+" type veth peer name "+uplink+" netns "+m.Namespace.Name(),
		"ip link set "+m.port+" master "+bridge+" up",
	); err != nil {
		return err
	}
	if err := all(m.Namespace,
		"ip address add "+m.Address+"/24 dev "+uplink,
		"ip link set "+uplink+" up",
		"ip route add default via "+planeAddress,
	); err != nil {
		return err
	}
	errs := []error{addRoute(l.plane, m)}
	for _, other := range l.machines {
		errs = append(errs, addRoute(other.Namespace, m), addRoute(m.Namespace, other))
	}
	l.machines = append(l.machines, m)
	return errors.Join(errs...)
}

// addRoute adds the route to the pods of a machine.
func addRoute(from *netns.Namespace, to *Machine) error {
	return all(from, "ip route add "+to.PodRange+" via "+to.Address)
}
