//go:build real

// Package kubeadm shows that kubeadm makes a cluster of machines whose kubelet is berth, by a link: it starts
// the control plane as static pods, lets a node join, configures it anew and takes it out again.
//
// The machines are namespaces of this one (see machine.sh), and one is emulated (see guest.sh). `make test-kubeadm` does all of the
// set-up.
package kubeadm

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/test/fixture"
)

const (
	// replicas is the size of the Deployment at first.
	replicas = 4
	// podTimeout is how long pods may take to run or to end, on a machine that has a lot to do.
	podTimeout = 5 * time.Minute
	// nodeTimeout is how long a node may take to register and to be ready.
	nodeTimeout = 5 * time.Minute
)

func TestMain(m *testing.M) { os.Exit(fixture.RunTests(m)) }

func TestKubeadmMakesAClusterOfBerth(t *testing.T) {
	version := strings.TrimSpace(kubeadm(t, "version", "--output", "short"))
	images := imagesOf(t, version)
	one, two := newMachines(t, newRegistry(t, images))
	one.boot(images["pause"])
	two.boot(images["pause"])

	// The control plane runs as static pods.
	one.write("/etc/init.yaml", initConfig(one, version, map[string]any{"cgroupDriver": "cgroupfs", "failCgroupV1": false}))
	one.step("kubeadm", "init", "--config", "/etc/init.yaml", "--ignore-preflight-errors", ignored)
	one.awaitReady("one")
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		one.run("kubectl", "-n", "kube-system", "wait", "pod/"+program+"-one", "--for=condition=Ready", "--timeout=120s")
	}

	// A node joins by a token, for which it gets a certificate.
	two.write("/etc/join.yaml", joinConfig(one, registration(two)))
	join := []string{"kubeadm", "join", "--config", "/etc/join.yaml", "--ignore-preflight-errors", ignored}
	two.step(join...)
	one.awaitReady("two")
	two.mustHave("/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/pki/kubelet-client-current.pem")
	two.mustLack("/etc/kubernetes/bootstrap-kubelet.conf")

	// A Deployment runs on both, and its pods can be reached.
	one.run("kubectl", "taint", "node", "one", "node-role.kubernetes.io/control-plane-")
	one.write("/etc/web.yaml", deployment)
	one.run("kubectl", "apply", "-f", "/etc/web.yaml")
	one.run("kubectl", "rollout", "status", "deployment/web", "--timeout", podTimeout.String())
	before := one.pods("web")
	for _, node := range []string{"one", "two"} {
		if n := len(before.on(node)); n != replicas/2 {
			t.Errorf("%d pods on node %s, want %d: %v", n, node, replicas/2, before)
		}
	}
	for _, p := range before {
		one.mustReach(p)
		one.run("kubectl", "logs", p.name) // by the API server, at the port of the kubelet
	}

	// A new configuration comes with an upgrade, and no pod notices.
	one.edit("kubelet-config", "kubelet", func(config string) string { return config + "\nmaxPods: 42\n" })
	two.step("kubeadm", "upgrade", "node", "--ignore-preflight-errors", ignored)
	two.run("systemctl", "restart", "kubelet")
	one.run("kubectl", "wait", "node/two", "--for=jsonpath={.status.capacity.pods}=42", "--timeout=60s")
	one.awaitReady("two")
	if after := one.pods("web"); !slices.Equal(after, before) {
		t.Errorf("pods before the upgrade: %v, and after it: %v", before, after)
	}

	// A static pod of the control plane is upgraded, too: kubeadm waits for its mirror pod to change.
	one.edit("kubeadm-config", "ClusterConfiguration", func(config string) string {
		return strings.Replace(config, "scheduler: {}", "scheduler: {extraArgs: [{name: v, value: '3'}]}", 1)
	})
	one.step("kubeadm", "upgrade", "node", "--ignore-preflight-errors", ignored)
	one.run("kubectl", "-n", "kube-system", "wait", "pod/kube-scheduler-one", "--for=condition=Ready", "--timeout=120s")
	if command := one.run("kubectl", "-n", "kube-system", "get", "pod", "kube-scheduler-one", "-o", "jsonpath={.spec.containers[0].command}"); !strings.Contains(command, "--v=3") {
		t.Errorf("after the upgrade the command of the scheduler is %s", command)
	}

	// A reset ends the pods of the node, and it can join again. Cgroups and logs of those pods are left to the next kubelet.
	ended := before.on("two")
	two.reset()
	if len(two.leftovers(ended)) == 0 {
		t.Error("kubeadm left nothing of the pods of node two")
	}
	one.run("kubectl", "delete", "node", "two")
	one.run(append([]string{"kubectl", "delete", "pod", "--force"}, ended.names()...)...)
	two.step(join...)
	one.awaitReady("two")
	one.run("kubectl", "scale", "deployment/web", "--replicas", strconv.Itoa(replicas+2))
	one.run("kubectl", "rollout", "status", "deployment/web", "--timeout", podTimeout.String())
	if len(one.pods("web").on("two")) == 0 {
		t.Error("node two has no pod after it joined again")
	}
	two.within(podTimeout, func() error {
		if left := two.leftovers(ended); len(left) > 0 {
			return fmt.Errorf("%v are left of pods from before the reset", left)
		}
		return nil
	})
	two.reset()
	one.reset()
}

// ignored are the checks of kubeadm that may fail. With cgroup v1, which a kubelet of this version has to be asked
// to accept, kubeadm has to be asked, too.
const ignored = "SystemVerification"

// step runs a command that a person would run, and logs what it prints.
func (m *machine) step(command ...string) string {
	m.t.Helper()
	began := time.Now()
	out := m.run(command...)
	m.t.Logf("%s: %s (%s)\n%s", m.name, strings.Join(command, " "), time.Since(began).Round(time.Second), out)
	return out
}

// awaitReady returns once a node has registered, a moment after kubeadm saw its certificate, and is ready.
func (m *machine) awaitReady(node string) {
	m.t.Helper()
	for _, what := range []string{"create", "condition=Ready"} {
		m.run("kubectl", "wait", "node/"+node, "--for="+what, "--timeout", nodeTimeout.String())
	}
}

// reset takes the machine out of its cluster.
func (m *machine) reset() {
	m.t.Helper()
	m.step("kubeadm", "reset", "--force")
	m.mustLack("/etc/kubernetes/kubelet.conf", "/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods")
	m.within(10*time.Second, func() error { // a shim ends a moment after its sandbox
		for _, program := range m.processes() {
			if !slices.Contains([]string{"bash", "sleep", "containerd"}, program) {
				return fmt.Errorf("after the reset of machine %s, %s runs", m.name, program)
			}
		}
		return nil
	})
}

// leftovers returns the cgroups and the folders of logs that pods have on the machine.
func (m *machine) leftovers(pods webPods) []string {
	m.t.Helper()
	var left []string
	for _, p := range pods {
		for _, pattern := range []string{
			"/sys/fs/cgroup/*/" + m.id() + "/kubepods/*/pod" + p.uid,
			filepath.Join("/proc", m.first, "root/var/log/pods/*_"+p.uid),
		} {
			found, err := filepath.Glob(pattern)
			must(m.t, err)
			left = append(left, found...)
		}
	}
	return left
}

// kubeadm runs kubeadm on this machine, for what it knows without a cluster.
func kubeadm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "cluster/kubeadm"), args...).Output()
	must(t, err)
	return string(out)
}

// imagesOf returns the images that kubeadm asks for, by their last names, such as etcd.
func imagesOf(t *testing.T, version string) map[string]string {
	t.Helper()
	images := map[string]string{}
	for _, image := range strings.Fields(kubeadm(t, "config", "images", "list", "--image-repository", repository, "--kubernetes-version", version)) {
		name, _, _ := strings.Cut(filepath.Base(image), ":")
		images[name] = image
	}
	return images
}

// newRegistry has the images that kubeadm asks for, made of the programs that make builds, and that of a workload.
func newRegistry(t *testing.T, images map[string]string) *fixture.Registry {
	t.Helper()
	registry := fixture.NewRegistry(t)
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		push(t, registry, images[program], "cluster/"+program, "usr/local/bin/"+program)
	}
	push(t, registry, images["pause"], "libexec/pause", "pause", "/pause")
	workload, err := fixture.Build("workload")
	must(t, err)
	registry.Push("workload:1", workload, 0)
	return registry
}

func push(t *testing.T, registry *fixture.Registry, image, program, path string, entrypoint ...string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(bin, program))
	must(t, err)
	registry.PushFiles(strings.TrimPrefix(image, repository+"/"), map[string][]byte{path: content}, gzip.NoCompression, entrypoint...)
}

// initConfig returns the configuration file of `kubeadm init`. CoreDNS and kube-proxy are off: the registry has no
// images of them. kubelet are fields of the configuration of all kubelets.
func initConfig(m *machine, version string, kubelet map[string]any) string {
	kubelet = maps.Clone(kubelet)
	kubelet["apiVersion"], kubelet["kind"] = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
	return document(map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration",
		"localAPIEndpoint": map[string]any{"advertiseAddress": m.address},
		"nodeRegistration": registration(m),
	}, map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
		"kubernetesVersion": version, "imageRepository": repository,
		"networking": map[string]any{"podSubnet": "10.244.0.0/16"},
		"dns":        map[string]any{"disabled": true},
		"proxy":      map[string]any{"disabled": true},
	}, kubelet)
}

// joinConfig has the token and the digest of the authority that kubeadm prints for nodes that are to join.
func joinConfig(plane *machine, registration map[string]any) string {
	words := strings.Fields(plane.run("kubeadm", "token", "create", "--print-join-command"))
	return document(map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
		"discovery": map[string]any{"bootstrapToken": map[string]any{
			"apiServerEndpoint": words[2], "token": words[4], "caCertHashes": []any{words[6]},
		}},
		"nodeRegistration": registration,
	})
}

// socket is where containerd listens.
const socket = "unix:///run/containerd/containerd.sock"

// registration returns the nodeRegistration of a machine. Each machine has a cgroup root of its own, since both
// machines are in the cgroup tree of the host.
func registration(m *machine) map[string]any {
	return map[string]any{
		"criSocket":        socket,
		"kubeletExtraArgs": []any{map[string]any{"name": "cgroup-root", "value": "/" + m.id()}},
	}
}

// document writes objects as YAML, of which JSON is a part.
func document(objects ...map[string]any) string {
	var text strings.Builder
	for _, object := range objects {
		line, err := json.Marshal(object)
		if err != nil {
			panic(err) // they are strings, booleans, maps and lists
		}
		fmt.Fprintf(&text, "---\n%s\n", line)
	}
	return text.String()
}
