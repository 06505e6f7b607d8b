// Package lab puts a Kubernetes cluster together on one machine: a control plane, and
// nodes that berth makes of network namespaces. Tests use it, and developers who want
// to try more than one machine (`make cluster`).
//
// Every machine of the cluster is a network namespace. They share one network, and
// each node knows the way to the pods of the others:
//
//	plane  10.99.0.1   etcd, API server, ...; the bridge that all nodes are plugged into
//	node 1 10.99.0.11  pods: 10.202.1.0/24
//	node 2 10.99.0.12  pods: 10.202.2.0/24
//
// Nothing is changed in the network of the machine itself, and no packet leaves it. All
// that is written is in one folder. A lab that was killed is taken down with Clear.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"berth/test/lab/control"
	"berth/test/netns"
)

// Config configures a lab: its programs and its folder.
type Config struct {
	Name     string         // of the plane's namespace, and begins those of the nodes: no other lab may have it
	Dir      string         // for everything; nothing of an earlier lab may be in it. Not longer than 30 bytes
	Programs string         // the folder of everything that make builds
	Parts    []control.Part // beside etcd and the API server
	Flags    map[control.Part][]string
	Images   []string // archives of the images that every node has
}

// Lab is a cluster. Its plane can be used, and abused, as it likes.
type Lab struct {
	*control.Plane
	config Config
	plane  *netns.Namespace
	lock   *os.File
	// machines are those of the network, in the order of their addresses: those of the nodes, and those that
	// were added without an agent.
	machines []*Machine
	nodes    []*Node
}

// planeDir is the folder of the control plane. All other folders of a lab belong to nodes.
const planeDir = "plane"

// Start starts a control plane, and returns once it is ready. Nodes join later.
func Start(ctx context.Context, c Config) (*Lab, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	// First of all: what has no lock is taken for a leftover.
	lock, err := takeLock(c.Dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{config: c, lock: lock}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) start(ctx context.Context) error {
	if err := os.Mkdir(filepath.Join(l.config.Dir, planeDir), 0o755); err != nil {
		return err
	}
	var err error
	if l.plane, err = netns.New(l.config.Name); err != nil {
		return err
	}
	if err := raiseBridge(l.plane); err != nil {
		return err
	}
	l.Plane, err = control.Start(ctx, control.Config{
		Namespace: l.plane, Address: planeAddress, Programs: filepath.Join(l.config.Programs, "cluster"),
		Dir: filepath.Join(l.config.Dir, planeDir), Parts: l.config.Parts, Flags: l.config.Flags,
	})
	return err
}

// Nodes are the nodes that have joined.
func (l *Lab) Nodes() []*Node { return slices.Clone(l.nodes) }

// Close ends everything, and leaves nothing but the folder.
func (l *Lab) Close() error {
	var errs []error
	for _, n := range slices.Backward(l.nodes) {
		errs = append(errs, n.remove())
	}
	if l.Plane != nil {
		errs = append(errs, l.Plane.Close())
	}
	if l.plane != nil {
		errs = append(errs, removeEmpty(l.plane))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take down the cluster in %s: %w", l.config.Dir, err)
	}
	l.lock.Close()
	return nil
}

// removeEmpty removes a namespace in which nothing must be left.
func removeEmpty(ns *netns.Namespace) error {
	left, err := ns.Processes()
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("processes are left in network namespace %s: %v", ns.Name(), left)
	}
	return errors.Join(err, ns.Remove())
}

// Dir is the folder of the lab.
func (l *Lab) Dir() string { return l.config.Dir }
