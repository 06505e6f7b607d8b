package roots

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"

	"berth/internal/host/proc"
)

// ThisProcess returns the Process of the caller.
func ThisProcess() Process {
	start, _ := proc.Table{Dir: "/proc"}.Started(os.Getpid()) // zero after an error: it matches no process
	return Process{PID: os.Getpid(), Start: start}
}

// ProcessRuns reports whether a process of this machine still runs.
func ProcessRuns(p Process) bool {
	if p.PID <= 0 {
		return false
	}
	start, err := proc.Table{Dir: "/proc"}.Started(p.PID)
	return err == nil && start == p.Start
}

// CurrentNetNS is the inode of the network namespace that this process is in.
func CurrentNetNS() (uint64, error) {
	var s syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &s); err != nil {
		return 0, fmt.Errorf("find out the network namespace: %w", err)
	}
	return s.Ino, nil
}

// MachineNetworks lists the networks of the addresses and routes of this network namespace,
// without default routes.
func MachineNetworks() ([]netip.Prefix, error) {
	var out []netip.Prefix
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the machine's addresses: %w", err)
	}
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.IPNet.String()); err == nil {
			out = append(out, p.Masked())
		}
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the machine's routes: %w", err)
	}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		if p, err := netip.ParsePrefix(route.Dst.String()); err == nil && p.Bits() > 0 {
			out = append(out, p.Masked())
		}
	}
	return out, nil
}
