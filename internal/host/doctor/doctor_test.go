package doctor

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

// tree is the files of a machine on which all is well.
func tree() map[string]string {
	return map[string]string{
		"proc/self/mountinfo": "1 0 254:0 / / rw - ext4 /dev/vda rw\n" +
			"2 1 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers":            "cpuset cpu io memory pids\n",
		"proc/filesystems":                            "nodev\tproc\nnodev\toverlay\n\text4\n",
		"proc/sys/kernel/osrelease":                   "6.1.0\n",
		"sys/module/bridge/x":                         "",
		"sys/module/veth/x":                           "",
		"sys/module/nf_nat/x":                         "",
		"proc/sys/net/bridge/bridge-nf-call-iptables": "1\n",
		"proc/sys/net/ipv4/ip_forward":                "1\n",
		"proc/sys/kernel/seccomp/actions_avail":       "kill\n",
		"proc/self/ns/user":                           "",
		"proc/sys/user/max_user_namespaces":           "100\n",
		"proc/sys/fs/inotify/max_user_instances":      "128\n",
		"proc/sys/fs/inotify/max_user_watches":        "65536\n",
		"proc/swaps":                                  "Filename\tType\n",
		"etc/resolv.conf":                             "search x\nnameserver 10.0.0.1\n",
		"proc/net/tcp":                                "  sl  local_address rem_address   st\n   0: 0100007F:0050 00000000:0000 0A 0\n   1: 0100007F:280A 0100007F:1000 01 0\n",
		"lib/containerd":                              "",
		"lib/containerd-shim-runc-v2":                 "",
		"lib/runc":                                    "",
		"lib/pause":                                   "",
		"lib/cni/bridge":                              "",
		"lib/cni/host-local":                          "",
		"lib/cni/portmap":                             "",
		"lib/cni/bandwidth":                           "",
	}
}

// machine has files of its own, which a test may change: an empty text removes one.
func machine(t *testing.T, changes map[string]string) Machine {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range tree() {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range changes {
		files[name] = &fstest.MapFile{Data: []byte(text)}
		if text == "" {
			delete(files, name)
		}
	}
	return Machine{
		Files: files, BerthRoot: "/var/lib/berth", Libexec: "/lib", Hostname: "box",
		Ports:    []Port{{10250, "the node's API"}},
		LookPath: func(string) (string, error) { return "/sbin/iptables", nil },
		Space: func(string) (Space, error) {
			return Space{Free: 50 << 30, Total: 100 << 30, FreeInodes: 1e6, TotalInodes: 2e6}, nil
		},
		ClockSynced: func() (bool, error) { return true, nil },
		AgentUp:     func() error { return errors.New("nobody is there") },
	}
}

func TestAMachineOnWhichAllIsWell(t *testing.T) {
	found := Examine(machine(t, nil))
	if len(found) != len(checks())-1 { // no cluster was asked for
		t.Errorf("got %d findings for %d checks", len(found), len(checks()))
	}
	for _, f := range found {
		if f.State != OK || f.Found == "" || f.Remedy != "" || f.Check == "" {
			t.Errorf("got %+v", f)
		}
	}
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestChecks(t *testing.T) {
	type files = map[string]string

	const v1Mounts = "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"3 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n4 1 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	cases := []struct {
		check  string
		files  files
		change func(*Machine)
		want   State
		found  string
		remedy string
	}{
		{"root", nil, func(m *Machine) { m.UID = 1000 }, Fail, "not root", "sudo berth doctor"},
		{"cgroups", files{"proc/self/mountinfo": "1 0 254:0 / / rw - ext4 /dev/vda rw\n"}, nil, Fail, "no cgroups", "mount -t cgroup2"},
		{"cgroups", files{"sys/fs/cgroup/cgroup.controllers": "cpuset cpu pids"}, nil, Fail, "v2 without memory", "cgroup_enable=memory"},
		{"cgroups", files{"proc/self/mountinfo": v1Mounts}, nil, Warn, "v1 without cpuset, pids", "cgroup_enable=cpuset cgroup_enable=pids"},
		{"cgroups", files{"proc/self/mountinfo": v1Mounts + "5 1 0:4 / /x rw - cgroup c rw,pids\n6 1 0:5 / /y rw - cgroup c rw,cpuset\n"}, nil, OK, "v1 with", ""},
		{"overlayfs", files{"proc/filesystems": "nodev\tproc\n"}, nil, Fail, "does not have it", "modprobe overlay"},
		{"overlayfs", files{"proc/filesystems": "nodev\tproc\n", "lib/modules/6.1.0/modules.dep": "kernel/fs/overlayfs/overlay.ko:\n"}, nil, OK, "when it is needed", ""},
		{"root directory", files{"proc/self/mountinfo": "1 0 0:1 / / rw - overlay o rw\n"}, nil, Fail, "is on overlay", "--root-dir"},
		{"root directory", files{"proc/self/mountinfo": "1 0 0:1 / / rw - overlay o rw\n2 1 0:2 / /var/lib rw - tmpfs t rw\n"}, nil, Warn, "after a reboot", "--root-dir"},
		{"root directory", files{"proc/self/mountinfo": "1 0 0:1 / / rw - ext4 o rw\n2 1 0:2 / /var/lib/ber rw - nfs4 t rw\n"}, nil, OK, "is on ext4", ""},
		{"root directory", files{"proc/self/mountinfo": "1 0 0:1 / / rw - ext4 o rw\n2 1 0:2 / /var/lib/berth rw - nfs4 t rw\n"}, nil, Fail, "is on nfs4", "local disk"},
		{"disk space", nil, func(m *Machine) {
			m.Space = func(string) (Space, error) { return Space{Free: 100 << 20, Total: 100 << 30}, nil }
		}, Fail, "0.1 GiB", "du -xsh"},
		{"disk space", nil, func(m *Machine) {
			m.Space = func(string) (Space, error) { return Space{Free: 3 << 30, Total: 10 << 30}, nil }
		}, Warn, "(30%)", "du -xsh"},
		{"disk space", nil, func(m *Machine) {
			m.Space = func(string) (Space, error) {
				return Space{Free: 50 << 30, Total: 100 << 30, FreeInodes: 5, TotalInodes: 1e6}, nil
			}
		}, Fail, "5 inodes", "df -i"},
		{"disk space", nil, func(m *Machine) {
			m.Space = func(dir string) (Space, error) {
				if dir != "/var" {
					return Space{}, errors.New("not there")
				}
				return Space{Free: 50 << 30, Total: 100 << 30}, nil
			}
		}, OK, "in /var (50%)", ""},
		{"bundled programs", files{"lib/runc": "", "lib/cni/portmap": ""}, nil, Fail, "no runc, cni/portmap", "make build"},
		{"bundled programs", files{"lib/runc": ""}, func(m *Machine) { m.Endpoint = "unix:///x" }, OK, "not needed", ""},
		{"iptables", nil, func(m *Machine) { m.LookPath = func(string) (string, error) { return "", errors.New("no") } }, Fail, "no iptables", "apt-get install iptables"},
		{"veth", files{"sys/module/veth/x": ""}, nil, Warn, "does not show", "modprobe veth"},
		{"veth", files{"sys/module/veth/x": "", "boot/config-6.1.0": "CONFIG_VETH=m\n"}, nil, Warn, "no such file", "modprobe veth"},
		{"veth", files{"sys/module/veth/x": "", "boot/config-6.1.0": "# CONFIG_VETH is not set\n"}, nil, Fail, "built without", "CONFIG_VETH"},
		{"veth", files{"sys/module/veth/x": "", "proc/config.gz": zipped(t, "CONFIG_VETH=y\n")}, nil, OK, "has it", ""},
		{"bridge", files{"sys/module/bridge/x": "", "lib/modules/6.1.0/modules.builtin": "kernel/net/bridge/bridge.ko\n"}, nil, OK, "has it", ""},
		{"nat", files{"sys/module/nf_nat/x": "", "lib/modules/6.1.0/modules.dep": "kernel/net/nf_nat.ko.xz: x\n"}, nil, OK, "when it is needed", ""},
		{"br_netfilter", files{"proc/sys/net/bridge/bridge-nf-call-iptables": "0"}, nil, Warn, "does not pass", "sysctl -w net.bridge"},
		{"br_netfilter", files{"proc/sys/net/bridge/bridge-nf-call-iptables": "", "boot/config-6.1.0": "CONFIG_BRIDGE_NETFILTER=y\n"}, nil, OK, "first bridge", ""},
		{"br_netfilter", files{"proc/sys/net/bridge/bridge-nf-call-iptables": "", "lib/modules/6.1.0/modules.dep": "kernel/net/bridge/br_netfilter.ko: x\n"}, nil, Warn, "not loaded", "modprobe br_netfilter"},
		{"ip_forward", files{"proc/sys/net/ipv4/ip_forward": "0"}, nil, Warn, "not forwarded", "sysctl -w net.ipv4.ip_forward=1"},
		{"seccomp", files{"proc/sys/kernel/seccomp/actions_avail": ""}, nil, Warn, "does not have it", "CONFIG_SECCOMP"},
		{"user namespaces", files{"proc/sys/user/max_user_namespaces": "0"}, nil, Warn, "none may be made", "sysctl -w user"},
		{"security modules", files{"sys/fs/selinux/enforce": "1"}, func(m *Machine) {
			m.CanLabel = func() error { return errors.New("no such policy") }
		}, Warn, "enforcing, and containers have no labels, not even those of pods with seLinuxOptions: no such policy", "container-selinux"},
		{"security modules", files{"sys/fs/selinux/enforce": "1"}, func(m *Machine) { m.CanLabel = func() error { return nil } }, OK, "SELinux is enforcing", ""},
		{"security modules", files{"sys/fs/selinux/enforce": "0", "sys/module/apparmor/parameters/enabled": "Y\n"}, nil, OK, "AppArmor is on, SELinux is permissive", ""},
		{"inotify", files{"proc/sys/fs/inotify/max_user_instances": "10"}, nil, Warn, "is 10", "max_user_instances=512"},
		{"inotify", files{"proc/sys/fs/inotify/max_user_watches": ""}, nil, Warn, "does not show", "CONFIG_INOTIFY"},
		{"swap", files{"proc/swaps": "Filename Type\n/dev/sda2 partition\n"}, nil, Warn, "/dev/sda2", "swapoff -a"},
		{"swap", files{"proc/swaps": "Filename Type\n/dev/sda2 partition\n"}, nil, Warn, "a kernel before 6.4 may write secrets to it", "swapoff -a"},
		{"clock", nil, func(m *Machine) { m.ClockSynced = func() (bool, error) { return false, nil } }, Warn, "not synchronised", "set-ntp"},
		{"clock", nil, func(m *Machine) { m.ClockSynced = func() (bool, error) { return false, errors.New("no rights") } }, Warn, "no rights", "timedatectl"},
		{"host name", nil, func(m *Machine) { m.Hostname = "my_box" }, Fail, "my_box", "--hostname-override"},
		{"resolv.conf", files{"etc/resolv.conf": "options x\n"}, nil, Warn, "no name server", "nameserver"},
		{"resolv.conf", files{"etc/resolv.conf": "nameserver 127.0.0.53\n"}, nil, Warn, "loopback", "name one"},
		{"resolv.conf", files{"etc/resolv.conf": "nameserver 127.0.0.53\n", "run/systemd/resolve/resolv.conf": "x"}, nil, Warn, "loopback", "ln -sf"},
		{"resolv.conf", files{"etc/resolv.conf": strings.Repeat("nameserver 10.0.0.1\n", 4)}, nil, Warn, "4 servers", "remove"},
		{"ports", nil, func(m *Machine) { m.Ports = []Port{{10250, "a"}, {80, "the web"}} }, Warn, "80 (the web)", "sport = :80"},
		{"ports", nil, func(m *Machine) {
			m.Ports = []Port{{80, "the web"}}
			m.AgentUp = func() error { return nil }
		}, OK, "the agent's", ""},
		{"agent", nil, func(m *Machine) { m.AgentUp = func() error { return nil } }, OK, "an agent runs", ""},
		{"ports", nil, func(m *Machine) { m.Ports = nil }, OK, "none", ""},
		// What the file of the lock says proves nothing: the pid may be another process's by now.
		{"agent", files{"var/lib/berth/berth.sock": "x", "var/lib/berth/berth.lock": "7\n", "proc/7/comm": "berth"}, nil, Warn, "was killed", "berth run"},
		{"agent", files{"var/lib/berth/berth.sock": "x"}, func(m *Machine) { m.AgentPID = func() int { return 7 } }, Warn, "(pid 7) does not answer", "kill 7"},
		{"agent", files{"var/lib/berth/berth.sock": "x"}, func(m *Machine) { m.UID = 1000 }, Warn, "no agent answers", "as root"},
		{"cluster", nil, func(m *Machine) { m.Cluster = func() error { return errors.New("refused") } }, Fail, "refused", "--kubeconfig"},
		{"cluster", nil, func(m *Machine) { m.Cluster = func() error { return nil } }, OK, "answers", ""},
	}
	for _, c := range cases {
		t.Run(c.check+" "+c.found, func(t *testing.T) {
			m := machine(t, c.files)
			if c.change != nil {
				c.change(&m)
			}
			for _, f := range Examine(m) {
				if f.Check != c.check {
					continue
				}
				if f.State != c.want || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Remedy, c.remedy) || (f.State == OK) != (f.Remedy == "") {
					t.Errorf("got %+v", f)
				}
				return
			}
			t.Error("there is no such check")
		})
	}
}

func TestWhichKernelsKeepSecretsOutOfSwap(t *testing.T) {
	for release, warnsOfDisk := range map[string]bool{"5.10.0-30-amd64": true, "6.3.9": true, "6.4.0": false, "6.12.1+deb13": false, "7.0-rc1": false, "odd": false} {
		m := machine(t, map[string]string{"proc/swaps": "Filename Type\n/dev/sda2 partition\n", "proc/sys/kernel/osrelease": release})
		if f := checkSwap(&m); f.State != Warn || strings.Contains(f.Found, "secrets") != warnsOfDisk {
			t.Errorf("%s: %+v", release, f)
		}
	}
}
