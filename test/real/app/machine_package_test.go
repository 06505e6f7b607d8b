//go:build real && machine

package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/ociarchive"
	"berth/test/real/kit"
)

// packages is the folder of the Debian packages, of which there are two versions.
const packages = "/berth/packages"

func TestDebianPackage(t *testing.T) {
	// given a machine on which the package is installed for the first time
	n := &kit.Node{T: t, Root: "/var/lib/berth", Manifests: "/etc/berth/manifests"}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(kit.MustRun(t, "journalctl", "--no-pager", "--lines=200", "--unit=berth", "--unit=kubelet"))
		}
	})
	install(n, "berth_1_amd64.deb")
	if got := property(t, "berth", "UnitFileState") + " " + property(t, "berth", "ActiveState"); got != "enabled active" {
		t.Fatalf("the unit is %s", got)
	}

	// when it gets flags and a pod
	n.ReplaceFile("/etc/default/berth", []byte(`BERTH_ARGS="--hostname-override=`+kit.NodeName+`"`+"\n"))
	kit.MustRun(t, "systemctl", "restart", "berth")
	n.AddImage("workload.tar", kit.WorkloadArchive(t, kit.WorkloadImage, ociarchive.Write))
	n.Apply("web.yaml", kit.NewPod("web", "serve", ":7070"))
	waitAgent(n)
	before := n.WaitRunning("web")["web"]

	// then an upgrade replaces the agent, keeps the flags, and the pod does not notice
	agent := property(t, "berth", "MainPID")
	install(n, "berth_2_amd64.deb")
	waitAgent(n)
	if now := property(t, "berth", "MainPID"); now == agent {
		t.Error("the agent of the old version still runs")
	}
	mustBeTheSame(t, before, n.WaitRunning("web")["web"])
	if program, err := os.Readlink("/proc/" + property(t, "berth", "MainPID") + "/exe"); err != nil || program != "/usr/lib/berth/berth" {
		t.Errorf("the agent runs %s: %v", program, err)
	}

	// when the agent hangs, then systemd starts another one, and the pod does not notice that either
	n.ReplaceFile(dropIn(t, "berth"), []byte("[Service]\nWatchdogSec=4s\nTimeoutAbortSec=2s\n"))
	kit.MustRun(t, "systemctl", "daemon-reload")
	kit.MustRun(t, "systemctl", "restart", "berth")
	waitAgent(n)
	agent = property(t, "berth", "MainPID")
	kit.MustRun(t, "systemctl", "kill", "--kill-whom=main", "--signal=STOP", "berth")
	n.Wait("another agent", 2*time.Minute, func() string {
		now := property(t, "berth", "MainPID")
		return kit.MissingUnless(now != agent && now != "0")
	})
	waitAgent(n)
	mustBeTheSame(t, before, n.WaitRunning("web")["web"])

	// when the package is removed, then its pods end, and its files stay
	kit.MustRun(t, "dpkg", "--remove", "berth")
	if left := processes(t, "berth", "containerd", "containerd-shim", "workload"); len(left) > 0 {
		t.Errorf("these processes are left: %v", left)
	}
	mustExist(t, true, "/var/lib/berth", "/etc/berth/manifests/web.yaml", "/etc/default/berth")
	mustExist(t, false, "/usr/bin/berth", "/usr/lib/berth")

	// when it is purged, then they go, but for what the user wrote
	kit.MustRun(t, "dpkg", "--purge", "berth")
	mustExist(t, false, "/var/lib/berth", "/etc/default/berth", "/etc/berth/config.yaml")
	mustExist(t, true, "/etc/berth/manifests/web.yaml")
	if state := property(t, "berth", "LoadState"); state == "loaded" {
		t.Errorf("the unit of a purged package is %s", state)
	}

	// and when the other package is installed, then there is a kubelet, with kubeadm's settings
	install(n, "berth-kubelet_2_amd64.deb")
	if got := kit.MustRun(t, "kubelet", "--version"); !strings.HasPrefix(got, "Kubernetes v1.") {
		t.Errorf("kubelet --version prints %q", got)
	}
	if got := kit.MustRun(t, "systemctl", "show", "--property=ExecStart", "kubelet"); !strings.Contains(got, "$KUBELET_KUBEADM_ARGS") {
		t.Errorf("kubeadm's flags are not in %s", got)
	}
	kit.MustRun(t, "dpkg", "--purge", "berth-kubelet")
	mustExist(t, false, "/usr/bin/kubelet", "/usr/bin/berth")
}

// install installs a package as a user without a terminal would.
func install(n *kit.Node, file string) {
	n.T.Helper()
	kit.MustRun(n.T, "env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--install", filepath.Join(packages, file))
}

func waitAgent(n *kit.Node) {
	n.T.Helper()
	n.Wait("the agent to answer", kit.StartTimeout, func() string {
		_, err := n.List()
		return kit.MissingUnless(err == nil)
	})
}

// property is a property of a unit of systemd.
func property(t *testing.T, unit, name string) string {
	t.Helper()
	return strings.TrimSpace(kit.MustRun(t, "systemctl", "show", "--value", "--property="+name, unit))
}

// dropIn is a file for settings of a unit, until the next boot.
func dropIn(t *testing.T, unit string) string {
	t.Helper()
	dir := "/run/systemd/system/" + unit + ".service.d"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "test.conf")
}

// processes are the names of the processes of the machine that have one of these names.
func processes(t *testing.T, names ...string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil || len(files) == 0 {
		t.Fatalf("/proc has %d processes: %v", len(files), err)
	}
	var found []string
	for _, file := range files {
		name, _ := os.ReadFile(file) // a process that is gone has none
		if slices.Contains(names, strings.TrimSpace(string(name))) {
			found = append(found, strings.TrimSpace(string(name)))
		}
	}
	return found
}

func mustBeTheSame(t *testing.T, before, now v1.Pod) {
	t.Helper()
	if kit.AppStatus(now).ContainerID != kit.AppStatus(before).ContainerID || kit.AppStatus(now).RestartCount != 0 {
		t.Errorf("the pod is %s, before it was %s", kit.Summary(now), kit.Summary(before))
	}
}

func mustExist(t *testing.T, want bool, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", path, err == nil, want)
		}
	}
}
