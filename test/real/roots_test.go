//go:build real

package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/host/roots"
	"berth/internal/lib/pod"
	"berth/internal/runtime/ociarchive"
)

// Several roots on one machine: none of them touches anything of another.

// sharedMachine is the network of a machine that has several roots.
type sharedMachine struct {
	t *testing.T
	network
	roots  []*node
	before traces
}

func newSharedMachine(t *testing.T) *sharedMachine {
	t.Helper()
	m := &sharedMachine{t: t}
	dir, err := os.MkdirTemp("/tmp", "bt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	m.network = newNetwork(t, filepath.Base(dir))
	m.before = m.traces()
	t.Cleanup(m.end)
	return m
}

// traces is what the roots leave in the places that they share.
func (m *sharedMachine) traces() traces {
	m.t.Helper()
	n := &node{t: m.t, network: m.network, name: m.Name()}
	seen := n.look(nil)
	var ids []string
	for _, r := range m.roots {
		ids = append(ids, roots.ID(r.root), r.name)
	}
	isOurs := func(text string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) })
	}
	seen["cgroups"] = filter(walk(n, "/sys/fs/cgroup"), func(path string) bool { return isOurs(path) || filepath.Base(path) == "berth" })
	seen["mounts"] = filter(n.mountTable(), isOurs)
	seen["cni results"] = filter(walk(n, "/var/lib/cni"), isOurs)
	seen["claims"] = filter(walk(n, roots.RegistryDir), isOurs)
	return seen
}

// root makes one more root directory. Its agent is started without a flag that would set
// it apart from others.
func (m *sharedMachine) root() *node {
	m.t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bt-")
	if err != nil {
		m.t.Fatal(err)
	}
	n := &node{
		t: m.t, network: m.network, name: filepath.Base(dir), dir: dir, program: berthProgram(m.t),
		root: filepath.Join(dir, "root"), manifests: filepath.Join(dir, "manifests"), config: filepath.Join(dir, "config.yaml"),
	}
	n.socket = filepath.Join(n.root, "run", "containerd.sock")
	if err := os.Mkdir(n.manifests, 0o755); err != nil {
		m.t.Fatal(err)
	}
	n.drop("workload.tar", archive(m.t, workloadImage, ociarchive.Write))
	m.roots = append(m.roots, n)
	return n
}

// plainArgs are the flags of an agent that knows nothing of others.
func (n *node) plainArgs(more ...string) []string {
	return append([]string{"run", "--root-dir", n.root, "--manifests", n.manifests, "--hostname-override", nodeName}, more...)
}

func (n *node) startPlain(more ...string) {
	n.t.Helper()
	n.launch(n.plainArgs(more...)...)
	n.awaitAgent()
}

// end takes down all roots, and makes sure that nothing is left of any.
func (m *sharedMachine) end() {
	for _, n := range slices.Backward(m.roots) {
		if n.agent == nil {
			continue
		}
		if m.t.Failed() {
			n.dump()
		}
		n.agent.kill()
		if got := n.berth("down", "--grace-period", "5"); got.code != 0 {
			m.t.Errorf("berth down: %s", got)
		}
	}
	for _, n := range m.roots {
		n.removeFiles()
	}
	after := m.traces()
	for kind := range after {
		if !slices.Equal(m.before[kind], after[kind]) {
			m.t.Errorf("%s before:\n\t%s\nafter:\n\t%s", kind, strings.Join(m.before[kind], "\n\t"), strings.Join(after[kind], "\n\t"))
		}
	}
}

// neighbour is a root whose pods run while something happens to another root.
type neighbour struct {
	*node
	lives  map[string]life
	done   chan struct{}
	ended  sync.WaitGroup
	asked  int
	failed []string
}

// watchOver begins to ask the pods of a root, by their addresses and host ports, over and over.
func (n *node) watchOver(hostPort int, names ...string) *neighbour {
	n.t.Helper()
	pods := n.waitRunning(names...)
	w := &neighbour{node: n, lives: n.lives(pods), done: make(chan struct{})}
	var addresses []string
	for _, name := range names {
		addresses = append(addresses, pods[name].Status.PodIP+":80")
	}
	if hostPort != 0 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", hostPort))
	}
	for _, a := range addresses {
		n.waitAnswer(a, "/")
	}
	w.ended.Go(func() {
		for {
			for _, a := range addresses {
				w.asked++
				if _, err := n.get(a, "/"); err != nil {
					w.failed = append(w.failed, err.Error())
				}
			}
			select {
			case <-w.done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return w
}

// mustBeUntouched ends the watch: all containers are the same, and always answered.
func (w *neighbour) mustBeUntouched(after string) {
	w.t.Helper()
	close(w.done)
	w.ended.Wait()
	if len(w.failed) > 0 || w.asked == 0 {
		w.t.Errorf("%s: %d of %d requests to the other root's pods failed: %v", after, len(w.failed), w.asked, w.failed[:min(3, len(w.failed))])
	}
	w.mustLiveOn(w.lives)
	for name, p := range w.pods() {
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount != 0 {
				w.t.Errorf("%s: %s was restarted %d times", after, name, c.RestartCount)
			}
		}
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// servingPod answers on port 80, by a host port, too.
func servingPod(name string, hostPort int32) *v1.Pod {
	p := newPod(name, "serve", ":80")
	p.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": "100M"}
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: hostPort}}
	return p
}

func TestTwoRootsSideBySide(t *testing.T) {
	t.Parallel()
	// given two roots in one network, with pods of the same names, and no flag that sets them apart
	m := newSharedMachine(t)
	a, b := m.root(), m.root()
	ports := map[*node]int{a: 8081, b: 8082}
	for n, port := range ports {
		n.apply("web.yaml", servingPod("web", int32(port)))
		n.launch(n.plainArgs()...)
	}
	for _, pair := range [][2]*node{{a, b}, {b, a}} {
		pair[0].awaitAgent()
		other, n := pair[0], pair[1]
		n.awaitAgent()
		n.waitRunning("web")
		watch := func() *neighbour { return other.watchOver(ports[other], "web") }

		// when one is drained
		w := watch()
		n.must("drain")
		w.mustBeUntouched("drain")
		n.must("drain", "--undo")
		n.waitRunning("web")

		// when its agent and its runtime are killed, and come back
		w = watch()
		n.crash()
		kill(t, n.containerdPID())
		n.startPlain()
		own := n.waitRunning("web")
		w.mustBeUntouched("kill -9 and restart")
		n.waitAnswer(own["web"].Status.PodIP+":80", "/")

		// when it is taken down, twice, and once while nothing but its files is there
		w = watch()
		n.down()
		if got := n.berth("down"); got.code != 0 {
			t.Errorf("berth down: %s", got)
		}
		w.mustBeUntouched("down")

		// when it is run again
		w = watch()
		n.startPlain()
		n.waitRunning("web")
		w.mustBeUntouched("run")
	}
}

// A root that never had a pod once ended all pods of the agent on the default root: both had the
// cgroup /berth.
func TestARootWithoutPodsTouchesNobody(t *testing.T) { // alone, since there is but one such cgroup
	// given pods in the cgroup of the default root
	m := newSharedMachine(t)
	a := m.root()
	a.cgroupRoot("/berth")
	a.apply("web.yaml", servingPod("web", 8083))
	a.startPlain("--config", a.config, "--healthz-port", "10248")
	watch := func() *neighbour { return a.watchOver(8083, "web") }

	// when another root is run, and taken down
	w := watch()
	other := m.root()
	other.apply("own.yaml", newPod("own", "sleep"))
	other.apply("greedy.yaml", servingPod("greedy", 8083))
	other.startPlain()
	other.waitRunning("own")
	// which is told who has the host port that one of its pods asks for
	other.waitPod("greedy", "is rejected", startLimit, func(p v1.Pod) string {
		return boolText(p.Status.Phase == v1.PodFailed && p.Status.Reason == pod.ReasonNodePorts && strings.HasSuffix(p.Status.Message, "of the agent on "+a.root))
	})
	other.down()
	w.mustBeUntouched("berth run --root-dir OTHER")
	if text, err := os.ReadFile(a.logFile()); err != nil || strings.Contains(string(text), "the node has another address") {
		t.Errorf("the bridge of another root counts as a network of this node (%v)", err)
	}

	// when a root is taken down in which an older version ran without a pod
	w = watch()
	older := m.root()
	older.startPlain()
	older.down()
	older.asOfOlderVersion()
	if got := older.berth("down"); got.code != 0 {
		t.Errorf("berth down: %s", got)
	}
	// and one that has its own runtime
	older.asOfOlderVersion()
	if err := os.MkdirAll(filepath.Join(older.root, "run", "containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := older.berth("down"); got.code != 0 || !strings.Contains(got.stderr, "cgroup root /berth belongs to root directory "+a.root) {
		t.Errorf("berth down: %s", got)
	}
	// and one in which none ever ran
	fresh := m.root()
	if got := fresh.berth("down"); got.code == 0 || !strings.Contains(got.stderr, "no berth ever ran on "+fresh.root) {
		t.Errorf("berth down: %s", got)
	}
	w.mustBeUntouched("berth down --root-dir OTHER")

	// when a pod is run once with the configuration of that agent, and when such a run is killed
	w = watch()
	if got := a.run(a.onceBeside(jobPod("exit", "0"))); got.code != 0 || got.stderr != "" {
		t.Errorf("berth run --once: %s", got)
	}
	a.killOnce(jobPod("sleep"))
	w.mustBeUntouched("berth run --once")

	// when another root asks for what is taken, then it is told by whom, and nothing is begun
	w = watch()
	pid := fmt.Sprintf("root directory %s (agent with pid %d)", a.root, a.agent.cmd.Process.Pid)
	cidr := a.settings().PodCIDR
	for want, args := range map[string][]string{
		"cgroup root /berth belongs to " + pid:            {"--config", a.config},
		"pod CIDR 10.0.0.0/8 overlaps with " + cidr:       {"--pod-cidr", "10.0.0.0/8"},
		"port 127.0.0.1:10248 is in use by " + pid:        {"--healthz-port", "10248"},
		"root directory " + a.root + "/x lies within, or": {"--root-dir", a.root + "/x"},
	} {
		refused := m.root()
		ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
		defer cancel()
		got := refused.run(exec.CommandContext(ctx, refused.program, refused.plainArgs(args...)...))
		if got.code != 1 || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, a.root) {
			t.Errorf("berth run %v: got %s, want %q", args, got, want)
		}
		if _, err := os.Stat(filepath.Join(refused.root, "run")); !os.IsNotExist(err) {
			t.Errorf("berth run %v began something: %v", args, err)
		}
	}
	w.mustBeUntouched("refused starts")
}

func TestAnUpgradeKeepsPodsWithTheOldNames(t *testing.T) { // alone, since there is but one set of them
	// given pods that run under the names that all roots had
	m := newSharedMachine(t)
	n := m.root()
	n.asOfOlderVersion()
	if err := os.MkdirAll(filepath.Join(n.root, "run", "containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.apply("web.yaml", servingPod("web", 8084))
	n.startPlain()
	before := n.lives(n.waitRunning("web"))
	if got := n.settings(); got.CgroupRoot != "/berth" || got.Bridge != "berth0" || got.PodCIDR != "10.88.0.0/16" {
		t.Fatalf("got %+v", got)
	}
	n.stop()
	n.asOfOlderVersion()

	// when the agent is a newer one, then they go on
	n.startPlain()
	p := n.waitRunning("web")["web"]
	n.mustLiveOn(before)
	n.waitAnswer(p.Status.PodIP+":80", "/")

	// when all was taken down, then it has names of its own
	n.down()
	n.startPlain()
	n.waitRunning("web")
	if got := n.settings(); got.CgroupRoot != "/berth-"+roots.ID(n.root) || got.Bridge != "berth-"+roots.ID(n.root) || got.PodCIDR == "10.88.0.0/16" {
		t.Errorf("got %+v", got)
	}
}

func TestTwoAgentsOnOneRuntime(t *testing.T) {
	t.Parallel()
	// given a containerd with a pod of its own agent, which is away, and two agents that are given it
	m := newSharedMachine(t)
	owner, a, b := m.root(), m.root(), m.root()
	owner.apply("owners.yaml", newPod("owners", "serve", ":80"))
	owner.startPlain()
	owners := owner.lives(owner.waitRunning("owners"))
	owner.stop()
	given := []string{"--container-runtime-endpoint", "unix://" + owner.socket}
	for _, n := range []*node{a, b} {
		n.socket = owner.socket
		n.apply("web.yaml", newPod("web", "serve", ":80"))
		n.startPlain(given...)
		n.waitRunning("web")
	}
	// and a pod of yet another agent, of which nothing is known but where it logs to
	foreign := owner.foreignPod("foreign")

	// when one is drained, killed, started again and taken down, then the others do not notice
	w := b.watchOver(0, "web")
	a.must("drain")
	a.must("drain", "--undo")
	a.waitRunning("web")
	a.crash()
	a.startPlain(given...)
	a.waitRunning("web")
	a.down()
	w.mustBeUntouched("another agent on the same runtime")
	if status, _ := owner.container(foreign.container); status.State != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the pod of an agent that is not known is %s", status.State)
	}
	if err := owner.removeByHand(foreign); err != nil {
		t.Error(err)
	}

	// when the agent whose runtime it is comes back, then the pods of the other are none of its
	w = b.watchOver(0, "web")
	owner.startPlain()
	owner.waitRunning("owners")
	owner.mustLiveOn(owners)
	owner.apply("more.yaml", newPod("more", "sleep"))
	owner.waitRunning("more")

	// and the runtime can't be taken down while the other has pods in it
	if got := owner.berth("down"); got.code == 0 || !strings.Contains(got.stderr, "berth down --root-dir "+b.root) {
		t.Errorf("berth down: %s", got)
	}
	w.mustBeUntouched("the agent whose runtime it is")
	owner.mustLiveOn(owners) // and its agent is still there
	b.down()
}

// onceBeside runs a pod once, on a root of its own, with the configuration and the images of n.
func (n *node) onceBeside(p *v1.Pod) *exec.Cmd {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), n.program, "run", "--once", "-f", "-", "--images", filepath.Join(n.root, "images"), "--config", n.config)
	cmd.Stdin = bytes.NewReader(manifest(n.t, p))
	return cmd
}

// killOnce kills such a run in the middle. Its root is known by its claim, by which all is
// taken down.
func (n *node) killOnce(p *v1.Pod) {
	n.t.Helper()
	cmd := n.onceBeside(p)
	if err := n.Inside(cmd.Start); err != nil {
		n.t.Fatal(err)
	}
	registry := roots.Registry{Dir: roots.RegistryDir}
	claimed := func() string {
		claims, err := registry.All()
		if err != nil {
			n.t.Fatal(err)
		}
		for _, c := range claims {
			if c.Agent.PID == cmd.Process.Pid {
				return c.Root
			}
		}
		return ""
	}
	var run node
	n.wait("the pod to run", startLimit, func() string {
		run = node{t: n.t, network: n.network, program: n.program, root: claimed()}
		if run.root == "" {
			return "a claim"
		}
		if list, err := run.list(); err != nil || len(list.Pods.Items) != 1 || !isRunning(list.Pods.Items[0]) {
			return "the pod"
		}
		return ""
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if got := run.berth("down"); got.code != 0 {
		n.t.Errorf("berth down: %s", got)
	}
	if claimed() != "" {
		n.t.Errorf("the claim of %s is left", run.root)
	}
	if err := os.RemoveAll(run.root); err != nil {
		n.t.Error(err)
	}
}

// foreignPod makes a pod in the runtime as an agent would that does not tell of its root.
func (n *node) foreignPod(name string) *byHand {
	n.t.Helper()
	outside := *n
	outside.root = n.dir // its logs are elsewhere
	return outside.makeByHand(name, podLabels(name, "00000000-dead-beef-0000-00000000000f"), "sleep")
}

// cgroupRoot writes a configuration that sets it.
func (n *node) cgroupRoot(path string) {
	n.t.Helper()
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: " + path + "\n"
	if err := os.WriteFile(n.config, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// savedSettings are those of the last run that tests look at.
type savedSettings struct{ CgroupRoot, Bridge, PodCIDR string }

func (n *node) settingsFile() string { return filepath.Join(n.root, "settings.json") }

func (n *node) settings() savedSettings {
	n.t.Helper()
	var s savedSettings
	text, err := os.ReadFile(n.settingsFile())
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// asOfOlderVersion makes the settings of the last run those of a version in which all
// roots had the same names.
func (n *node) asOfOlderVersion() {
	n.t.Helper()
	all := map[string]any{
		"RootDir": n.root, "NodeName": nodeName, "RuntimeTimeout": 2 * time.Minute, "PodLogsDir": filepath.Join(n.root, "log", "pods"),
		"LogLinksDir": filepath.Join(n.root, "log", "containers"), "StartSlots": 2, "ParallelPulls": 4,
	}
	if text, err := os.ReadFile(n.settingsFile()); err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			n.t.Fatal(err)
		}
	}
	delete(all, "Names")
	all["CgroupRoot"], all["Bridge"], all["PodCIDR"] = "/berth", "", "10.88.0.0/16"
	text, err := json.Marshal(all)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(n.settingsFile(), text, 0o600); err != nil {
		n.t.Fatal(err)
	}
}
