package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/test/lab/control"
	"berth/test/lab/process"
	"berth/test/netns"
)

// downTimeout is how long the pods of a node may take to end.
const downTimeout = 3 * time.Minute

// maxRoot is how long the path of an agent's root may be.
const maxRoot = 36

// NodeConfig configures a node.
type NodeConfig struct {
	Name       string
	Kubeconfig string   // empty: one that leads straight to the API server, as this node
	Settings   string   // more lines of its KubeletConfiguration
	Flags      []string // more flags of its agent, given last: they win
	Disk       int64    // bytes of a disk of its own; 0: it has that of the lab
}

// Node is a machine with an agent. The agent is started and ended by one goroutine at
// a time.
type Node struct {
	*Machine
	Root      string // of the agent
	Manifests string // the folder of its static pods

	program string
	flags   []string
	agent   *process.Process // nil if it was ended
}

// Join adds a node and starts its agent. It does not wait for what the agent does.
func (l *Lab) Join(c NodeConfig) (*Node, error) {
	n, err := l.join(c)
	if err != nil {
		return nil, fmt.Errorf("join node %s: %w", c.Name, err)
	}
	return n, nil
}

func (l *Lab) join(c NodeConfig) (*Node, error) {
	root := filepath.Join(l.config.Dir, c.Name)
	switch {
	case c.Name == planeDir:
		return nil, fmt.Errorf("folder %s is that of the control plane", root)
	case len(root) > maxRoot:
		return nil, fmt.Errorf("folder %s is too long for unix sockets: it has %d bytes and may have %d", root, len(root), maxRoot)
	}
	machine, err := l.newMachine(c.Name)
	if err != nil {
		return nil, err
	}
	if c.Kubeconfig == "" {
		if c.Kubeconfig, err = l.Kubeconfig(control.Node(c.Name)); err != nil {
			return nil, err
		}
	}
	n := &Node{
		Machine: machine, Root: root, Manifests: filepath.Join(root, "manifests"),
		program: filepath.Join(l.config.Programs, "berth"),
	}
	settings := filepath.Join(root, "kubelet.yaml")
	n.flags = append([]string{
		"--hostname-override", c.Name, "--kubeconfig", c.Kubeconfig, "--config", settings, "--manifests", n.Manifests,
		"--node-ip", n.Address, "--pod-cidr", n.PodRange,
	}, c.Flags...)

	if c.Disk > 0 {
		if err := addDisk(root, c.Disk); err != nil {
			return nil, err
		}
	}
	// The folder comes first: Clear finds the namespace by it.
	if err := n.prepare(settings, l.settings(c, n.clientCA()), l.config.Images); err != nil {
		return nil, err
	}
	if err := os.WriteFile(n.clientCA(), l.Authority(), 0o644); err != nil {
		return nil, err
	}
	if err := machine.makeNamespace(); err != nil {
		return nil, err
	}
	l.nodes = append(l.nodes, n)
	if err := l.connect(machine); err != nil {
		return nil, err
	}
	return n, n.Start()
}

// clientCA is the authority of the clients of the node API: the API server calls it for kubectl logs
// and the like.
func (n *Node) clientCA() string { return filepath.Join(n.Root, "clients.crt") }

// settings is the KubeletConfiguration of a node. Two agents on one machine must not
// have the same cgroups. How full the disk of the machine is should not matter.
func (l *Lab) settings(c NodeConfig, clientCA string) string {
	if !strings.Contains(c.Settings, "evictionHard:") {
		c.Settings += "evictionHard: {memory.available: 100Mi, nodefs.available: 100Mi}\n"
	}
	return fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: /%s\nauthentication: {x509: {clientCAFile: %q}}\n%s",
		NamespaceOf(l.config.Name, c.Name), clientCA, c.Settings)
}

func (n *Node) prepare(file, settings string, images []string) error {
	archives := filepath.Join(n.Root, "images")
	for _, dir := range []string{n.Manifests, archives} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, image := range images {
		if err := copyFile(filepath.Join(archives, filepath.Base(image)), image); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(settings), 0o644)
}

// Log is the file that the agent writes to.
func (n *Node) Log() string { return filepath.Join(n.Root, "berth.log") }

// Tail is the end of the agent's log, for messages.
func (n *Node) Tail() string { return process.Tail(n.Log(), 32<<10) }

// Start starts the agent, which does not run.
func (n *Node) Start() error {
	var err error
	n.agent, err = process.Start(n.Namespace, n.Log(), n.program, append([]string{"run", "--root-dir", n.Root}, n.flags...)...)
	return err
}

// Running reports whether the agent was started and has not ended.
func (n *Node) Running() bool { return n.agent != nil && n.agent.Running() }

// Stop asks the agent to end, and returns once it has. Its pods go on.
func (n *Node) Stop() error {
	if n.agent == nil {
		return nil
	}
	running := n.agent
	n.agent = nil
	if !running.Running() {
		return fmt.Errorf("the agent of node %s had ended by itself: %s", n.Name, running.State())
	}
	return running.Stop()
}

// Kill ends the agent without giving it a chance to do anything about it.
func (n *Node) Kill() {
	if n.agent != nil {
		n.agent.Kill()
		n.agent = nil
	}
}

// Berth runs a command of berth on the node, and returns what it printed.
func (n *Node) Berth(args ...string) (string, error) {
	return n.Namespace.Run(n.program, append(args, "--root-dir", n.Root)...)
}

// remove ends the agent, all pods, the runtime, and the machine.
func (n *Node) remove() error {
	return errors.Join(n.Stop(), down(n.Namespace, n.program, n.Root), dropDisk(n.Root), removeEmpty(n.Namespace))
}

// down ends what an agent left running in root. An agent that never got to run has left nothing.
func down(ns *netns.Namespace, program, root string) error {
	if _, err := os.Stat(filepath.Join(root, "settings.json")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	_, err := ns.Run(program, "down", "--root-dir", root, "--grace-period", "10", "--timeout", downTimeout.String())
	return err
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// AwaitNodes returns once all nodes that have joined are ready.
func (l *Lab) AwaitNodes(ctx context.Context) error {
	for _, n := range l.nodes {
		if err := l.AwaitNode(ctx, n.Name); err != nil {
			return fmt.Errorf("%w; the log of its agent says:\n%s", err, n.Tail())
		}
	}
	return nil
}

// AwaitNode returns once a node is ready.
func (l *Lab) AwaitNode(ctx context.Context, name string) error {
	for _, what := range []string{"create", "condition=Ready"} {
		if _, err := l.Kubectl(ctx, "wait", "node/"+name, "--for="+what, "--timeout=60s"); err != nil {
			return err
		}
	}
	return nil
}
