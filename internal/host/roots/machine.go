package roots

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
)

// ThisProcess names the process that asks.
func ThisProcess() Process {
	start, _ := processStart(os.Getpid()) // zero: it is not told apart from a later one
	return Process{PID: os.Getpid(), Start: start}
}

// ProcessRuns tells whether a process of this machine is still there.
func ProcessRuns(p Process) bool {
	if p.PID <= 0 {
		return false
	}
	start, err := processStart(p.PID)
	return err == nil && start == p.Start
}

// processStart reads when a process began out of /proc/PID/stat. The name of its program, in brackets,
// may hold anything, so the fields are counted from there.
func processStart(pid int) (uint64, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const start = 19
	if len(fields) <= start {
		return 0, fmt.Errorf("process status %q is too short", stat)
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

// CurrentNetNS is the inode of the network namespace that this process is in.
func CurrentNetNS() (uint64, error) {
	var s syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &s); err != nil {
		return 0, fmt.Errorf("find out the network namespace: %w", err)
	}
	return s.Ino, nil
}

// MachineNetworks lists the networks that this network namespace has addresses in or
// routes to, but for the routes to everywhere.
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
