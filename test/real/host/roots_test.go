//go:build real

package host

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
	"berth/test/real/kit"
)

// Several roots on one machine: none of them touches anything of another.

// sharedMachine is the network of a machine that has several roots.
type sharedMachine struct {
	t *testing.T
	kit.Network
	roots  []*kit.Node
	before kit.Traces
}

func newSharedMachine(t *testing.T) *sharedMachine {
	t.Helper()
	m := &sharedMachine{t: t}
	dir, err := os.MkdirTemp("/tmp", "bt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	m.Network = kit.NewNetwork(t, filepath.Base(dir))
	m.before = m.traces()
	t.Cleanup(m.end)
	return m
}

// traces returns what the roots leave in the directories that they share.
func (m *sharedMachine) traces() kit.Traces {
	m.t.Helper()
	n := &kit.Node{T: m.t, Network: m.Network, UniqueName: m.Name()}
	seen := n.Traces(nil)
	var ids []string
	for _, r := range m.roots {
		ids = append(ids, roots.ID(r.Root), r.UniqueName)
	}
	isOurs := func(text string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) })
	}
	seen["cgroups"] = kit.Filter(kit.Walk(n, "/sys/fs/cgroup"), func(path string) bool { return isOurs(path) || filepath.Base(path) == "berth" })
	seen["mounts"] = kit.Filter(n.MountTable(), isOurs)
	seen["cni results"] = kit.Filter(kit.Walk(n, "/var/lib/cni"), isOurs)
	seen["claims"] = kit.Filter(kit.Walk(n, roots.RegistryDir), isOurs)
	return seen
}

// root makes one more root directory. Its agent is started without a flag that would set
// it apart from others.
func (m *sharedMachine) root() *kit.Node {
	m.t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bt-")
	if err != nil {
		m.t.Fatal(err)
	}
	n := &kit.Node{
		T: m.t, Network: m.Network, UniqueName: filepath.Base(dir), Dir: dir, Program: kit.BerthProgram(m.t),
		Root: filepath.Join(dir, "root"), Manifests: filepath.Join(dir, "manifests"), Config: filepath.Join(dir, "config.yaml"),
	}
	n.Socket = filepath.Join(n.Root, "run", "containerd.sock")
	if err := os.Mkdir(n.Manifests, 0o755); err != nil {
		m.t.Fatal(err)
	}
	n.AddImage("workload.tar", kit.WorkloadArchive(m.t, kit.WorkloadImage, ociarchive.Write))
	m.roots = append(m.roots, n)
	return n
}

// plainArgs are the flags of an agent that knows nothing of others.
func plainArgs(n *kit.Node, more ...string) []string {
	return append([]string{"run", "--root-dir", n.Root, "--manifests", n.Manifests, "--hostname-override", kit.NodeName}, more...)
}

func startPlain(n *kit.Node, more ...string) {
	n.T.Helper()
	n.Launch(plainArgs(n, more...)...)
	n.WaitAgent()
}

// end takes down all roots, and makes sure that nothing is left of any.
func (m *sharedMachine) end() {
	for _, n := range slices.Backward(m.roots) {
		if n.Agent == nil {
			continue
		}
		if m.t.Failed() {
			n.Dump()
		}
		n.Agent.Kill()
		if got := n.Berth("down", "--grace-period", "5"); got.Code != 0 {
			m.t.Errorf("berth down: %s", got)
		}
	}
	for _, n := range m.roots {
		n.RemoveFiles()
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
	*kit.Node
	lives  map[string]kit.ContainerInstance
	done   chan struct{}
	ended  sync.WaitGroup
	asked  int
	failed []string
}

// watchOver begins to ask the pods of a root, by their addresses and host ports, over and over.
func watchOver(n *kit.Node, hostPort int, names ...string) *neighbour {
	n.T.Helper()
	pods := n.WaitRunning(names...)
	w := &neighbour{Node: n, lives: n.Instances(pods), done: make(chan struct{})}
	var addresses []string
	for _, name := range names {
		addresses = append(addresses, pods[name].Status.PodIP+":80")
	}
	if hostPort != 0 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", hostPort))
	}
	for _, a := range addresses {
		n.WaitAnswer(a, "/")
	}
	w.ended.Go(func() {
		for {
			for _, a := range addresses {
				w.asked++
				if _, err := n.Get(a, "/"); err != nil {
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
	w.T.Helper()
	close(w.done)
	w.ended.Wait()
	if len(w.failed) > 0 || w.asked == 0 {
		w.T.Errorf("%s: %d of %d requests to the other root's pods failed: %v", after, len(w.failed), w.asked, w.failed[:min(3, len(w.failed))])
	}
	w.MustKeepInstances(w.lives)
	for name, p := range w.Pods() {
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount != 0 {
				w.T.Errorf("%s: %s was restarted %d times", after, name, c.RestartCount)
			}
		}
	}
	if w.T.Failed() {
		w.T.FailNow()
	}
}

// servingPod answers on port 80, by a host port, too.
func servingPod(name string, hostPort int32) *v1.Pod {
	p := kit.NewPod(name, "serve", ":80")
	p.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": "100M"}
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: hostPort}}
	return p
}

func TestTwoRootsSideBySide(t *testing.T) {
	t.Parallel()
	// given two roots in one network, with pods of the same names, and no flag that sets them apart
	m := newSharedMachine(t)
	a, b := m.root(), m.root()
	ports := map[*kit.Node]int{a: 8081, b: 8082}
	for n, port := range ports {
		n.Apply("web.yaml", servingPod("web", int32(port)))
		n.Launch(plainArgs(n)...)
	}
	for _, pair := range [][2]*kit.Node{{a, b}, {b, a}} {
		pair[0].WaitAgent()
		other, n := pair[0], pair[1]
		n.WaitAgent()
		n.WaitRunning("web")
		watch := func() *neighbour { return watchOver(other, ports[other], "web") }

		// when one is drained
		w := watch()
		n.MustBerth("drain")
		w.mustBeUntouched("drain")
		n.MustBerth("drain", "--undo")
		n.WaitRunning("web")

		// when its agent and its runtime are killed, and come back
		w = watch()
		n.KillAgent()
		kit.KillProcess(t, n.ContainerdPID())
		startPlain(n)
		own := n.WaitRunning("web")
		w.mustBeUntouched("kill -9 and restart")
		n.WaitAnswer(own["web"].Status.PodIP+":80", "/")

		// when it is taken down, twice, and once while nothing but its files is there
		w = watch()
		n.Down()
		if got := n.Berth("down"); got.Code != 0 {
			t.Errorf("berth down: %s", got)
		}
		w.mustBeUntouched("down")

		// when it is run again
		w = watch()
		startPlain(n)
		n.WaitRunning("web")
		w.mustBeUntouched("run")
	}
}

// A root that never had a pod once ended all pods of the agent on the default root: both had the
// cgroup /berth.
func TestARootWithoutPodsTouchesNoOther(t *testing.T) { // alone, since there is but one such cgroup
	// given pods in the cgroup of the default root
	m := newSharedMachine(t)
	a := m.root()
	cgroupRoot(a, "/berth")
	a.Apply("web.yaml", servingPod("web", 8083))
	startPlain(a, "--config", a.Config, "--healthz-port", "10248")
	watch := func() *neighbour { return watchOver(a, 8083, "web") }

	// when another root is run, and taken down
	w := watch()
	other := m.root()
	other.Apply("own.yaml", kit.NewPod("own", "sleep"))
	other.Apply("greedy.yaml", servingPod("greedy", 8083))
	startPlain(other)
	other.WaitRunning("own")
	// whose rejection names the root that has the host port
	other.WaitPod("greedy", "is rejected", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(p.Status.Phase == v1.PodFailed && p.Status.Reason == pod.ReasonNodePorts && strings.HasSuffix(p.Status.Message, "of the agent on "+a.Root))
	})
	other.Down()
	w.mustBeUntouched("berth run --root-dir OTHER")
	if text, err := os.ReadFile(a.LogFile()); err != nil || strings.Contains(string(text), "the node has another address") {
		t.Errorf("the bridge of another root counts as a network of this node (%v)", err)
	}

	// when a root is taken down in which an older version ran without a pod
	w = watch()
	older := m.root()
	startPlain(older)
	older.Down()
	asOfOlderVersion(older)
	if got := older.Berth("down"); got.Code != 0 {
		t.Errorf("berth down: %s", got)
	}
	// and one that has its own runtime
	asOfOlderVersion(older)
	if err := os.MkdirAll(filepath.Join(older.Root, "run", "containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := older.Berth("down"); got.Code != 0 || !strings.Contains(got.Stderr, "cgroup root /berth belongs to root directory "+a.Root) {
		t.Errorf("berth down: %s", got)
	}
	// and one in which none ever ran
	fresh := m.root()
	if got := fresh.Berth("down"); got.Code == 0 || !strings.Contains(got.Stderr, "no berth ever ran on "+fresh.Root) {
		t.Errorf("berth down: %s", got)
	}
	w.mustBeUntouched("berth down --root-dir OTHER")

	// when a pod is run once with the configuration of that agent, and when such a run is killed
	w = watch()
	if got := a.RunCommand(onceBeside(a, kit.JobPod("exit", "0"))); got.Code != 0 || got.Stderr != "" {
		t.Errorf("berth run --once: %s", got)
	}
	killOnce(a, kit.JobPod("sleep"))
	w.mustBeUntouched("berth run --once")

	// when another root claims what is taken, then the error names the owner, and nothing is begun
	w = watch()
	pid := fmt.Sprintf("root directory %s (agent with pid %d)", a.Root, a.Agent.Cmd.Process.Pid)
	cidr := settings(a).PodCIDR
	for want, args := range map[string][]string{
		"cgroup root /berth belongs to " + pid:            {"--config", a.Config},
		"pod CIDR 10.0.0.0/8 overlaps with " + cidr:       {"--pod-cidr", "10.0.0.0/8"},
		"port 127.0.0.1:10248 is in use by " + pid:        {"--healthz-port", "10248"},
		"root directory " + a.Root + "/x lies within, or": {"--root-dir", a.Root + "/x"},
	} {
		refused := m.root()
		ctx, cancel := context.WithTimeout(t.Context(), kit.CommandTimeout)
		defer cancel()
		got := refused.RunCommand(exec.CommandContext(ctx, refused.Program, plainArgs(refused, args...)...))
		if got.Code != 1 || !strings.Contains(got.Stderr, want) || !strings.Contains(got.Stderr, a.Root) {
			t.Errorf("berth run %v: got %s, want %q", args, got, want)
		}
		if _, err := os.Stat(filepath.Join(refused.Root, "run")); !os.IsNotExist(err) {
			t.Errorf("berth run %v began something: %v", args, err)
		}
	}
	w.mustBeUntouched("refused starts")
}

func TestAnUpgradeKeepsPodsWithTheOldNames(t *testing.T) { // alone, since there is but one set of them
	// given pods that run under the names that all roots had
	m := newSharedMachine(t)
	n := m.root()
	asOfOlderVersion(n)
	if err := os.MkdirAll(filepath.Join(n.Root, "run", "containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.Apply("web.yaml", servingPod("web", 8084))
	startPlain(n)
	before := n.Instances(n.WaitRunning("web"))
	if got := settings(n); got.CgroupRoot != "/berth" || got.Bridge != "berth0" || got.PodCIDR != "10.88.0.0/16" {
		t.Fatalf("got %+v", got)
	}
	n.Stop()
	asOfOlderVersion(n)

	// when the agent is a newer one, then they go on
	startPlain(n)
	p := n.WaitRunning("web")["web"]
	n.MustKeepInstances(before)
	n.WaitAnswer(p.Status.PodIP+":80", "/")

	// when all was taken down, then it has names of its own
	n.Down()
	startPlain(n)
	n.WaitRunning("web")
	if got := settings(n); got.CgroupRoot != "/berth-"+roots.ID(n.Root) || got.Bridge != "berth-"+roots.ID(n.Root) || got.PodCIDR == "10.88.0.0/16" {
		t.Errorf("got %+v", got)
	}
}

func TestTwoAgentsOnOneRuntime(t *testing.T) {
	t.Parallel()
	// given a containerd with a pod of its own agent, which is away, and two agents that are given it
	m := newSharedMachine(t)
	owner, a, b := m.root(), m.root(), m.root()
	owner.Apply("owners.yaml", kit.NewPod("owners", "serve", ":80"))
	startPlain(owner)
	owners := owner.Instances(owner.WaitRunning("owners"))
	owner.Stop()
	given := []string{"--container-runtime-endpoint", "unix://" + owner.Socket}
	for _, n := range []*kit.Node{a, b} {
		n.Socket = owner.Socket
		n.Apply("web.yaml", kit.NewPod("web", "serve", ":80"))
		startPlain(n, given...)
		n.WaitRunning("web")
	}
	// and a pod of yet another agent, of which nothing is known but where it logs to
	foreign := foreignPod(owner, "foreign")

	// when one is drained, killed, started again and taken down, then the others do not notice
	w := watchOver(b, 0, "web")
	a.MustBerth("drain")
	a.MustBerth("drain", "--undo")
	a.WaitRunning("web")
	a.KillAgent()
	startPlain(a, given...)
	a.WaitRunning("web")
	a.Down()
	w.mustBeUntouched("another agent on the same runtime")
	if status, _ := owner.Container(foreign.Container); status.State != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the pod of an agent that is not known is %s", status.State)
	}
	if err := owner.RemoveRuntimePod(foreign); err != nil {
		t.Error(err)
	}

	// when the agent whose runtime it is comes back, then the pods of the other are none of its
	w = watchOver(b, 0, "web")
	startPlain(owner)
	owner.WaitRunning("owners")
	owner.MustKeepInstances(owners)
	owner.Apply("more.yaml", kit.NewPod("more", "sleep"))
	owner.WaitRunning("more")

	// and the runtime can't be taken down while the other has pods in it
	if got := owner.Berth("down"); got.Code == 0 || !strings.Contains(got.Stderr, "berth down --root-dir "+b.Root) {
		t.Errorf("berth down: %s", got)
	}
	w.mustBeUntouched("the agent whose runtime it is")
	owner.MustKeepInstances(owners) // and its agent is still there
	b.Down()
}

// onceBeside runs a pod once, on a root of its own, with the configuration and the images of n.
func onceBeside(n *kit.Node, p *v1.Pod) *exec.Cmd {
	n.T.Helper()
	cmd := exec.CommandContext(n.T.Context(), n.Program, "run", "--once", "-f", "-", "--images", filepath.Join(n.Root, "images"), "--config", n.Config)
	cmd.Stdin = bytes.NewReader(kit.Manifest(n.T, p))
	return cmd
}

// killOnce kills such a run in the middle. Its root is known by its claim, by which all is
// taken down.
func killOnce(n *kit.Node, p *v1.Pod) {
	n.T.Helper()
	cmd := onceBeside(n, p)
	if err := n.Inside(cmd.Start); err != nil {
		n.T.Fatal(err)
	}
	registry := roots.Registry{Dir: roots.RegistryDir}
	claimed := func() string {
		claims, err := registry.All()
		if err != nil {
			n.T.Fatal(err)
		}
		for _, c := range claims {
			if c.Agent.PID == cmd.Process.Pid {
				return c.Root
			}
		}
		return ""
	}
	var run kit.Node
	n.Wait("the pod to run", kit.StartTimeout, func() string {
		run = kit.Node{T: n.T, Network: n.Network, Program: n.Program, Root: claimed()}
		if run.Root == "" {
			return "a claim"
		}
		if list, err := run.List(); err != nil || len(list.Pods.Items) != 1 || !kit.IsRunning(list.Pods.Items[0]) {
			return "the pod"
		}
		return ""
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if got := run.Berth("down"); got.Code != 0 {
		n.T.Errorf("berth down: %s", got)
	}
	if claimed() != "" {
		n.T.Errorf("the claim of %s is left", run.Root)
	}
	if err := os.RemoveAll(run.Root); err != nil {
		n.T.Error(err)
	}
}

// foreignPod makes a pod in the runtime as an agent does that does not label it with its root.
func foreignPod(n *kit.Node, name string) *kit.RuntimePod {
	n.T.Helper()
	outside := *n
	outside.Root = n.Dir // its logs are elsewhere
	return outside.CreateRuntimePod(name, kit.PodLabels(name, "00000000-dead-beef-0000-00000000000f"), "sleep")
}

// cgroupRoot writes a configuration that sets cgroupRoot.
func cgroupRoot(n *kit.Node, path string) {
	n.T.Helper()
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: " + path + "\n"
	if err := os.WriteFile(n.Config, []byte(text), 0o644); err != nil {
		n.T.Fatal(err)
	}
}

// savedSettings are the settings of the last run that tests look at.
type savedSettings struct{ CgroupRoot, Bridge, PodCIDR string }

func settingsFile(n *kit.Node) string { return filepath.Join(n.Root, "settings.json") }

func settings(n *kit.Node) savedSettings {
	n.T.Helper()
	var s savedSettings
	text, err := os.ReadFile(settingsFile(n))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return s
}

// asOfOlderVersion rewrites the settings of the last run to those of a version in which all roots
// had the same names.
func asOfOlderVersion(n *kit.Node) {
	n.T.Helper()
	all := map[string]any{
		"RootDir": n.Root, "NodeName": kit.NodeName, "RuntimeTimeout": 2 * time.Minute, "PodLogsDir": filepath.Join(n.Root, "log", "pods"),
		"LogLinksDir": filepath.Join(n.Root, "log", "containers"), "StartSlots": 2, "ParallelPulls": 4,
	}
	if text, err := os.ReadFile(settingsFile(n)); err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			n.T.Fatal(err)
		}
	}
	delete(all, "Names")
	all["CgroupRoot"], all["Bridge"], all["PodCIDR"] = "/berth", "", "10.88.0.0/16"
	text, err := json.Marshal(all)
	if err != nil {
		n.T.Fatal(err)
	}
	if err := os.WriteFile(settingsFile(n), text, 0o600); err != nil {
		n.T.Fatal(err)
	}
}
