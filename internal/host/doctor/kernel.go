package doctor

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"

	"berth/internal/host/mounts"
)

// mounts is empty if the mount table can't be read.
func (m *Machine) mounts() mounts.Table {
	table, err := mounts.Parse(strings.NewReader(m.read("proc/self/mountinfo")))
	if err != nil {
		return nil
	}
	return table
}

// needed are the controllers that limits of pods need.
func needed() []string { return []string{"cpu", "cpuset", "memory", "pids"} }

func checkCgroups(m *Machine) Finding {
	var have []string
	version := ""
	for _, on := range m.mounts() {
		switch {
		case on.FSType == "cgroup2" && on.Mountpoint == "/sys/fs/cgroup":
			version, have = "v2", strings.Fields(m.read(on.Mountpoint+"/cgroup.controllers"))
		case on.FSType == "cgroup":
			version, have = "v1", append(have, strings.Split(on.VFSOptions, ",")...)
		}
	}
	if version == "" {
		return fail("no cgroups are mounted", "mount -t cgroup2 none /sys/fs/cgroup")
	}
	missing := slices.DeleteFunc(needed(), func(c string) bool { return slices.Contains(have, c) })
	if len(missing) == 0 {
		return ok(version + " with " + strings.Join(needed(), ", "))
	}
	found := fmt.Sprintf("%s without %s: no pod can have limits of it", version, strings.Join(missing, ", "))
	remedy := "boot with cgroup_enable=" + strings.Join(missing, " cgroup_enable=") + " on the kernel's command line"
	if slices.Contains(missing, "memory") || slices.Contains(missing, "cpu") {
		return fail(found, remedy)
	}
	return warn(found, remedy)
}

func checkOverlay(m *Machine) Finding {
	if strings.Contains(m.read("proc/filesystems"), "\toverlay") {
		return ok("the kernel has it")
	}
	if module := kernelFeature(m, "overlay", "CONFIG_OVERLAY_FS", Fail); module.State == OK {
		return module
	}
	return fail("the kernel does not have it, or not yet: images can't be unpacked", "modprobe overlay")
}

// kernelFeature finds out whether the kernel has something that may be a module.
func kernelFeature(m *Machine, module, option string, lacking State) Finding {
	release := m.read("proc/sys/kernel/osrelease")
	modules := "lib/modules/" + release
	switch set := m.kernelOption(option, release); {
	case m.exists("sys/module/" + module), set == "y", m.lists(modules+"/modules.builtin", module):
		return ok("the kernel has it")
	case m.canLoad(module):
		return ok("it is a module, which the kernel loads when it is needed")
	case set == "m":
		return warn("it is a module, and no such file is installed for this kernel", "modprobe "+module)
	case set == "n":
		return Finding{State: lacking, Found: "the kernel was built without it", Remedy: "use a kernel with " + option}
	}
	return warn("this kernel does not show whether it has it", "modprobe "+module)
}

// canLoad reports whether there is a module for this kernel that is not part of it.
func (m *Machine) canLoad(module string) bool {
	return m.lists("lib/modules/"+m.read("proc/sys/kernel/osrelease")+"/modules.dep", module)
}

// lists reports whether a list of modules has one.
func (m *Machine) lists(file, module string) bool {
	text := m.read(file)
	for _, ending := range []string{".ko", ".ko.xz", ".ko.zst", ".ko.gz"} {
		if strings.Contains(text, "/"+module+ending) {
			return true
		}
	}
	return false
}

// kernelOption returns the value of a build option of the kernel: y, m, n, or "" if it is not known.
func (m *Machine) kernelOption(name, release string) string {
	for _, path := range []string{"proc/config.gz", "boot/config-" + release, "lib/modules/" + release + "/config"} {
		if set, known := m.optionIn(path, name); known {
			return set
		}
	}
	return ""
}

func (m *Machine) optionIn(path, name string) (set string, known bool) {
	file, err := m.Files.Open(at(path))
	if err != nil {
		return "", false
	}
	defer func() { _ = file.Close() }() // it was only read
	var text io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			return "", false
		}
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+"="); found {
			return value, true
		}
	}
	return "n", lines.Err() == nil
}

func checkSeccomp(m *Machine) Finding {
	if m.exists("proc/sys/kernel/seccomp/actions_avail") || strings.Contains(m.read("proc/self/status"), "\nSeccomp:") {
		return ok("the kernel has it")
	}
	return warn("the kernel does not have it: containers with a seccomp profile don't start", "use a kernel with CONFIG_SECCOMP_FILTER")
}

func checkUserNamespaces(m *Machine) Finding {
	switch most := m.read("proc/sys/user/max_user_namespaces"); {
	case !m.exists("proc/self/ns/user"):
		return warn("the kernel does not have them: pods with hostUsers: false don't start", "use a kernel with CONFIG_USER_NS")
	case most == "0":
		return warn("none may be made: pods with hostUsers: false don't start", "sysctl -w user.max_user_namespaces=15000")
	}
	return ok("the kernel has them")
}

func checkSecurityModules(m *Machine) Finding {
	var on []string
	if m.read("sys/module/apparmor/parameters/enabled") == "Y" {
		on = append(on, "AppArmor is on")
	}
	if mode, has := map[string]string{"0": "permissive", "1": "enforcing"}[m.read("sys/fs/selinux/enforce")]; has {
		on = append(on, "SELinux is "+mode)
		if m.CanLabel != nil {
			if err := m.CanLabel(); err != nil {
				return warn(fmt.Sprintf("SELinux is %s, and containers have no labels, not even those of pods with seLinuxOptions: %v", mode, err),
					"load a policy for containers, like that of the package container-selinux")
			}
		}
	}
	if len(on) == 0 {
		return ok("neither SELinux nor AppArmor is on")
	}
	return ok(strings.Join(on, ", "))
}
