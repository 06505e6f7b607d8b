// Package doctor finds out what a machine lacks to run pods, and says how each
// thing is mended.
//
// A check is a small function over a Machine: it reads files of one tree, and
// whatever can't be read from files is asked of a function that the Machine holds.
// Nothing is changed, and no check depends on another.
package doctor

import (
	"io/fs"
	"path"
	"strings"
)

// State is the result of a check.
type State string

const (
	OK   State = "ok"
	Warn State = "warn" // pods run, and something will not be as expected
	Fail State = "fail" // pods don't run
)

// Finding is the result of one check, with its facts and a remedy.
type Finding struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // a command, or what else to do
}

// Machine provides the facts for the checks. A function that is nil is not called.
type Machine struct {
	Files fs.FS // all of the machine, from its root on
	UID   int   // of this process

	BerthRoot string // root directory of the agent
	Libexec   string // where the bundled programs are
	Endpoint  string // of a container runtime that is there; empty: the bundled one
	Hostname  string
	Ports     []Port // that the agent listens on

	LookPath    func(program string) (string, error)
	Space       func(dir string) (Space, error)
	ClockSynced func() (bool, error)
	CanLabel    func() error // why containers can't have SELinux labels
	AgentUp     func() error // asks the agent on the socket
	AgentPID    func() int   // the process that works in BerthRoot, as the kernel says; 0: none, or not known
	Cluster     func() error // asks the API server; nil without a kubeconfig
}

// Port is a TCP port, and its purpose.
type Port struct {
	Number int
	Use    string
}

// Space is the size and the free space of a file system.
type Space struct {
	Free, Total             uint64 // bytes
	FreeInodes, TotalInodes uint64
}

// check is one check of the machine.
type check struct {
	name string
	ask  func(*Machine) Finding
}

// checks in the order in which one would mend things.
func checks() []check {
	return []check{
		{"root", checkRoot},
		{"cgroups", checkCgroups},
		{"overlayfs", checkOverlay},
		{"root directory", checkRootDir},
		{"disk space", checkSpace},
		{"bundled programs", checkPrograms},
		{"iptables", checkIptables},
		{"bridge", func(m *Machine) Finding { return kernelFeature(m, "bridge", "CONFIG_BRIDGE", Fail) }},
		{"veth", func(m *Machine) Finding { return kernelFeature(m, "veth", "CONFIG_VETH", Fail) }},
		{"nat", func(m *Machine) Finding { return kernelFeature(m, "nf_nat", "CONFIG_NF_NAT", Fail) }},
		{"br_netfilter", checkBridgeFilter},
		{"ip_forward", checkForward},
		{"seccomp", checkSeccomp},
		{"user namespaces", checkUserNamespaces},
		{"security modules", checkSecurityModules},
		{"inotify", checkInotify},
		{"swap", checkSwap},
		{"clock", checkClock},
		{"host name", checkHostname},
		{"resolv.conf", checkResolver},
		{"ports", checkPorts},
		{"agent", checkAgent},
		{"cluster", checkCluster},
	}
}

// Examine makes all checks.
func Examine(m Machine) []Finding {
	var out []Finding
	for _, c := range checks() {
		f := c.ask(&m)
		if f.State == "" {
			continue // there is nothing to say
		}
		f.Check = c.name
		out = append(out, f)
	}
	return out
}

func ok(found string) Finding           { return Finding{State: OK, Found: found} }
func warn(found, remedy string) Finding { return Finding{State: Warn, Found: found, Remedy: remedy} }

func fail(found, remedy string) Finding { return Finding{State: Fail, Found: found, Remedy: remedy} }

// at is a path as a tree of files has it.
func at(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// read returns a file without the space around it, or nothing if it can't be read.
func (m *Machine) read(name string) string {
	text, err := fs.ReadFile(m.Files, at(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (m *Machine) exists(name string) bool {
	_, err := fs.Stat(m.Files, at(name))
	return err == nil
}

func checkRoot(m *Machine) Finding {
	if m.UID != 0 {
		return fail("this is not root: the agent starts containers, and some checks see less", "sudo berth doctor")
	}
	return ok("this is root")
}
