package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func checkIptables(m *Machine) Finding {
	if m.LookPath == nil {
		return Finding{}
	}
	path, err := m.LookPath("iptables")
	if err != nil {
		return fail("there is no iptables: pods have no way out, and host ports don't work", "apt-get install iptables")
	}
	return ok(path)
}

func checkBridgeFilter(m *Machine) Finding {
	const file = "proc/sys/net/bridge/bridge-nf-call-iptables"
	switch m.read(file) {
	case "1":
		return ok("traffic between pods passes iptables")
	case "0":
		return warn("traffic between pods does not pass iptables: a pod can't reach itself through its host port", "sysctl -w net.bridge.bridge-nf-call-iptables=1")
	}
	if !m.exists("sys/module/br_netfilter") && m.canLoad("br_netfilter") {
		return warn("it is a module that is not loaded: a pod can't reach itself through its host port", "modprobe br_netfilter")
	}
	f := kernelFeature(m, "br_netfilter", "CONFIG_BRIDGE_NETFILTER", Warn)
	if f.State == OK {
		return ok("the kernel has it, and turns it on with the first bridge")
	}
	return f
}

func checkForward(m *Machine) Finding {
	if m.read("proc/sys/net/ipv4/ip_forward") == "1" {
		return ok("packets are forwarded")
	}
	return warn("packets are not forwarded, until the network of pods turns that on", "sysctl -w net.ipv4.ip_forward=1")
}

func checkResolver(m *Machine) Finding {
	const file = "/etc/resolv.conf"
	var servers []string
	for line := range strings.Lines(m.read(file)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			servers = append(servers, words[1])
		}
	}
	local := slices.ContainsFunc(servers, func(s string) bool {
		ip, err := netip.ParseAddr(s)
		return err == nil && ip.IsLoopback()
	})
	switch {
	case len(servers) == 0:
		return warn(file+" names no name server: pods resolve no names", "echo 'nameserver ADDRESS' >> "+file)
	case local && m.exists("run/systemd/resolve/resolv.conf"):
		return warn(file+" names a server on loopback, which pods can't reach", "ln -sf /run/systemd/resolve/resolv.conf "+file)
	case local:
		return warn(file+" names a server on loopback, which pods can't reach", "name one in "+file+" that other machines reach, too")
	case len(servers) > 3:
		return warn(fmt.Sprintf("%s names %d servers, of which pods use the first 3", file, len(servers)), "remove the others from "+file)
	}
	return ok(strings.Join(servers, ", "))
}

func checkHostname(m *Machine) Finding {
	name := strings.ToLower(m.Hostname)
	valid := name != "" && len(name) <= 253 && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-") && strings.Trim(name, ".") == name &&
		strings.IndexFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' }) < 0
	if !valid {
		return fail(fmt.Sprintf("%q can't be the name of a node", m.Hostname), "berth run --hostname-override NAME")
	}
	return ok(name)
}

func checkPorts(m *Machine) Finding {
	if len(m.Ports) == 0 {
		return ok("the agent listens on none")
	}
	if m.AgentUp != nil && m.AgentUp() == nil {
		return ok("they are the agent's, which runs")
	}
	taken := map[int]bool{}
	for _, file := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for _, port := range listening(m.read(file)) {
			taken[port] = true
		}
	}
	var used, remedies, free []string
	for _, p := range m.Ports {
		if taken[p.Number] {
			used = append(used, fmt.Sprintf("%d (%s)", p.Number, p.Use))
			remedies = append(remedies, fmt.Sprintf("ss -ltnp 'sport = :%d'", p.Number))
		} else {
			free = append(free, strconv.Itoa(p.Number))
		}
	}
	if len(used) > 0 {
		return warn("another program listens on "+strings.Join(used, ", "), strings.Join(remedies, "; ")+" names it")
	}
	return ok(strings.Join(free, ", ") + " are free")
}

// listening are the ports of a table of TCP sockets that wait for connections.
func listening(table string) []int {
	var out []int
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) < 4 || words[3] != "0A" {
			continue
		}
		_, port, _ := strings.Cut(words[1], ":")
		if n, err := strconv.ParseUint(port, 16, 16); err == nil {
			out = append(out, int(n))
		}
	}
	return out
}

func checkCluster(m *Machine) Finding {
	if m.Cluster == nil {
		return Finding{}
	}
	if err := m.Cluster(); err != nil {
		return fail(fmt.Sprintf("the API server can't be reached: %v", err), "check the address and the credentials of the --kubeconfig, and the way there")
	}
	return ok("the API server answers")
}
