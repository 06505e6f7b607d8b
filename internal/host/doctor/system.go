package doctor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"berth/internal/host/kernel"
)

// limits of inotify: what a hundred pods and their agent need.
const (
	leastInstances = 128
	leastWatches   = 8192
)

func checkInotify(m *Machine) Finding {
	for _, limit := range []struct {
		name          string
		least, remedy int
	}{
		{"max_user_instances", leastInstances, 512},
		{"max_user_watches", leastWatches, 524288},
	} {
		text := m.read("proc/sys/fs/inotify/" + limit.name)
		n, err := strconv.Atoi(text)
		if err != nil {
			return warn("the kernel does not show its limits: changes to manifests may be seen late", "use a kernel with CONFIG_INOTIFY_USER")
		}
		if n < limit.least {
			return warn(fmt.Sprintf("fs.inotify.%s is %d: changes to files may be seen late", limit.name, n), fmt.Sprintf("sysctl -w fs.inotify.%s=%d", limit.name, limit.remedy))
		}
	}
	return ok("the limits are high enough")
}

func checkSwap(m *Machine) Finding {
	lines := strings.Split(m.read("proc/swaps"), "\n")
	if len(lines) < 2 { // the first is the head
		return ok("there is none")
	}
	where, _, _ := strings.Cut(lines[1], " ")
	found := fmt.Sprintf("%s is used: with cgroup v1, containers without a memory limit may be swapped out to it", strings.TrimSpace(where))
	if kernel.LacksNoswap(m.read("proc/sys/kernel/osrelease")) {
		found += ", and a kernel before 6.4 may write secrets to it"
	}
	return warn(found, "swapoff -a, and remove it from /etc/fstab")
}

func checkClock(m *Machine) Finding {
	if m.ClockSynced == nil {
		return Finding{}
	}
	synced, err := m.ClockSynced()
	switch {
	case err != nil:
		return warn(fmt.Sprintf("the kernel does not show it: %v", err), "timedatectl status")
	case !synced:
		return warn("it is not synchronised: certificates and the times of events may be off", "timedatectl set-ntp true, or install chrony")
	}
	return ok("it is kept right")
}

// checkAgent looks for what an agent left that is no more, or that hangs.
func checkAgent(m *Machine) Finding {
	if m.AgentUp == nil {
		return Finding{}
	}
	socket := filepath.Join(m.BerthRoot, "berth.sock")
	err := m.AgentUp()
	if err == nil {
		return ok("an agent runs on " + m.BerthRoot)
	}
	pid := 0
	if m.AgentPID != nil {
		pid = m.AgentPID()
	}
	switch {
	case pid > 0:
		return warn(fmt.Sprintf("the agent (pid %d) does not answer on %s: %v", pid, socket, err), fmt.Sprintf("look into its log, and start it again: kill %d", pid))
	case m.exists(socket) && m.UID != 0:
		return warn(fmt.Sprintf("no agent answers on %s: %v", socket, err), "run this as root, which sees more of an agent")
	case m.exists(socket):
		return warn("an agent was killed and left "+socket+"; its pods run on", "berth run, which takes it over")
	}
	return ok("none runs on " + m.BerthRoot)
}
