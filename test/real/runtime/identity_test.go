//go:build real

package runtime

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/ociarchive"
	"berth/test/real/kit"
)

func TestNamesInside(t *testing.T) {
	t.Parallel()
	// given pods with names of every kind
	n := kit.NewNode(t)
	n.Configure("clusterDomain: cluster.local\nclusterDNS: [10.0.0.10]\n")
	named := kit.ReadablePod("named")
	named.Spec.Hostname, named.Spec.Subdomain, named.Spec.SetHostnameAsFQDN = "one", "db", new(true)
	named.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b"}}}
	named.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}, Searches: []string{"lan"}, Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}}}
	other := kit.ReadablePod("other")
	other.Spec.HostnameOverride = new("my.other.name")
	other.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}} // and that of the cluster is one too many
	onHost := kit.ReadablePod("onhost")
	onHost.Spec.HostNetwork = true
	onHost.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"there"}}}
	short := kit.ReadablePod(strings.Repeat("s", 70)) // of which 63 fit
	short.Spec.Subdomain = "db"
	long := kit.ReadablePod("long")
	long.Spec.Hostname, long.Spec.Subdomain, long.Spec.SetHostnameAsFQDN = strings.Repeat("x", 60), "db", new(true)
	n.Apply("pods.yaml", named, other, onHost, short, long)
	n.Start()
	pods := n.WaitRunning("named", "other", "onhost", short.Name)

	// then they find them inside
	p := pods["named"]
	if got := strings.TrimSpace(n.WaitAnswer(p.Status.PodIP+":7070", "/hostname")); got != "one.db.default.svc.cluster.local" {
		t.Errorf("its name is %s", got)
	}
	n.MustContain(p, "/etc/hosts", "# Kubernetes-managed hosts file.\n", "127.0.0.1\tlocalhost\n",
		"\n"+p.Status.PodIP+"\tone.db.default.svc.cluster.local\tone\n", "\n# Entries added by HostAliases.\n192.0.2.1\ta\tb\n")
	n.MustContain(p, "/etc/resolv.conf", "nameserver 10.0.0.10\n", "nameserver 192.0.2.53\n", "default.svc.cluster.local svc.cluster.local cluster.local", "lan", "ndots:2")

	p = pods["other"]
	if got := strings.TrimSpace(n.WaitAnswer(p.Status.PodIP+":7070", "/hostname")); got != "my.other.name" {
		t.Errorf("its name is %s", got)
	}
	n.MustContain(p, "/etc/hosts", "\n"+p.Status.PodIP+"\tmy.other.name\n")
	if got := n.ReadFile(p, "/etc/resolv.conf"); strings.Contains(got, "192.0.2.3") || !strings.Contains(got, "192.0.2.2") {
		t.Errorf("it asks\n%s", got)
	}
	if e := n.WaitEvent(p, "DNSConfigForming"); !strings.Contains(e.Message, "10.0.0.10 192.0.2.1 192.0.2.2") {
		t.Errorf("reported: %s", e.Message)
	}

	p = pods[short.Name]
	cut := short.Name[:63]
	if got := strings.TrimSpace(n.WaitAnswer(p.Status.PodIP+":7070", "/hostname")); got != cut {
		t.Errorf("its name is %s", got)
	}
	n.MustContain(p, "/etc/hosts", "\n"+p.Status.PodIP+"\t"+cut+".db.default.svc.cluster.local\t"+cut+"\n")

	machine, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	n.MustContain(pods["onhost"], "/etc/hosts", "# Kubernetes-managed hosts file (host network).\n", string(machine), "192.0.2.7\tthere\n")

	// and a name that the kernel has no room for is said to be one
	const kubelets = "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN "
	if e := n.WaitEvent(n.Pod("long"), "FailedCreatePodSandBox"); !strings.HasPrefix(e.Message, kubelets) {
		t.Errorf("reported: %s", e.Message)
	}
	n.WaitPod("long", "to say why", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(p.Status.Phase == v1.PodPending && w != nil && strings.Contains(w.Message, "is too long (64 characters is the max"))
	})

	// when the sandbox of a pod is lost, then the next one has its own address in its file
	before := pods["named"].Status.PodIP
	stopSandboxOf(n, pods["named"])
	p = n.WaitPod("named", "to have another address", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && p.Status.PodIP != before)
	})
	n.MustContain(p, "/etc/hosts", "\n"+p.Status.PodIP+"\tone.db.default.svc.cluster.local\tone\n")
}

func TestResolversInside(t *testing.T) {
	t.Parallel()
	// given a machine with settings of its own, and pods of every policy
	n := kit.NewNode(t)
	machine := filepath.Join(n.Dir, "resolv.conf")
	n.ReplaceFile(machine, []byte("search lan.example\nnameserver 192.0.2.99\noptions rotate\n"))
	n.Configure("clusterDomain: cluster.local\nclusterDNS: [10.0.0.10]\nresolvConf: " + machine + "\n")
	const ofMachine = "search lan.example\nnameserver 192.0.2.99\noptions rotate\n"
	const ofCluster = "search default.svc.cluster.local svc.cluster.local cluster.local lan.example\nnameserver 10.0.0.10\noptions ndots:5\n"
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("s%d.example", i))
	}
	more := &v1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}, Searches: []string{"my.example"}, Options: []v1.PodDNSConfigOption{{Name: "edns0"}}}
	all := map[string]struct {
		policy v1.DNSPolicy
		onHost bool
		config *v1.PodDNSConfig
		want   string
	}{
		"cluster":  {policy: v1.DNSClusterFirst, want: ofCluster},
		"default":  {policy: v1.DNSDefault, want: ofMachine},
		"none":     {policy: v1.DNSNone, config: more, want: "search my.example\nnameserver 192.0.2.1\noptions edns0\n"},
		"onhost":   {policy: v1.DNSClusterFirst, onHost: true, want: ofMachine},
		"withhost": {policy: v1.DNSClusterFirstWithHostNet, onHost: true, want: ofCluster},
		"merged":   {policy: v1.DNSDefault, config: more, want: "search lan.example my.example\nnameserver 192.0.2.99\nnameserver 192.0.2.1\noptions rotate edns0\n"},
		"many": { // which are 32 at most, with those of the cluster
			policy: v1.DNSClusterFirst, config: &v1.PodDNSConfig{Searches: many},
			want: strings.Replace(ofCluster, "lan.example", "lan.example "+strings.Join(many[:28], " "), 1),
		},
	}
	var pods []*v1.Pod
	for name, is := range all {
		p := kit.NewPod(name, "quote", "/etc/resolv.conf")
		p.Spec.RestartPolicy, p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = v1.RestartPolicyNever, is.policy, is.onHost, is.config
		pods = append(pods, p)
	}
	n.Apply("pods.yaml", pods...)
	n.Start()

	// then each asks whom it should
	for name, is := range all {
		p := n.WaitPod(name, "to have read its file", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(p.Status.Phase == v1.PodSucceeded) })
		if got := kit.AppStatus(p).State.Terminated.Message; got != is.want {
			t.Errorf("%s asks\n%s, and should ask\n%s", name, got, is.want)
		}
	}
	if e := n.WaitEvent(n.Pod("many"), "DNSConfigForming"); !strings.Contains(e.Message, "Search Line limits were exceeded") {
		t.Errorf("reported: %s", e.Message)
	}
}

func TestIdentityInside(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.AddImage("named.tar", archiveAs(t, "localhost/named:1", "nobody"))
	n.AddImage("numbered.tar", archiveAs(t, "localhost/numbered:1", "4321"))

	// given pods with user IDs
	user := kit.ReadablePod("user")
	user.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1001)), SupplementalGroups: []int64{5, 6}, FSGroup: new(int64(7)), RunAsNonRoot: new(true)}
	user.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		Capabilities:   &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	group := kit.ReadablePod("group") // a group without a user
	group.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: new(int64(1001))}
	caps := kit.ReadablePod("caps")
	caps.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE"}}}
	number := kit.ReadablePod("number") // whose image says who
	number.Spec.Containers[0].Image = "localhost/numbered:1"
	number.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: new(true)}
	processes := kit.ReadablePod("processes")
	processes.Spec.HostPID = true
	pods := []*v1.Pod{user, group, caps, number, processes}
	// and two that must not be root, and might
	root := kit.ReadablePod("root")
	root.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsNonRoot: new(true)}
	root.Spec.Containers = append(root.Spec.Containers, kit.NewContainer("neighbour", "sleep"))
	name := kit.ReadablePod("name")
	name.Spec.Containers[0].Image = "localhost/named:1"
	name.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsNonRoot: new(true)}
	// and one that this machine can't confine
	confined := kit.ReadablePod("confined")
	confined.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
	n.Apply("pods.yaml", append(pods, root, name, confined)...)
	n.Start()
	running := n.WaitRunning("user", "group", "caps", "number", "processes")

	// then they are
	p := running["user"]
	for field, want := range map[string]string{
		"Uid": "1000 1000 1000 1000", "Gid": "1001 1001 1001 1001", "Groups": "5 6 7 1001", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got := n.ProcStatus(p, field); got != want {
			t.Errorf("user: %s is %q, want %q", field, got, want)
		}
	}
	if got := n.WaitAnswer(p.Status.PodIP+":7070", "/mkdir?path=/x"); !strings.Contains(got, "read-only file system") {
		t.Errorf("its root can be written: %s", got)
	}
	for _, want := range []struct{ pod, field, value string }{
		{"group", "Uid", "0 0 0 0"},
		{"group", "Gid", "1001 1001 1001 1001"},
		{"group", "Seccomp", "0"},
		{"caps", "CapEff", "0000000000000400"},
		{"number", "Uid", "4321 4321 4321 4321"},
	} {
		if got := n.ProcStatus(running[want.pod], want.field); got != want.value {
			t.Errorf("%s: %s is %q, want %q", want.pod, want.field, got, want.value)
		}
	}
	// who sees the processes of the machine finds the agent by its number
	n.MustContain(running["processes"], fmt.Sprintf("/proc/%d/cmdline", n.Agent.Cmd.Process.Pid), "run", n.Root)

	for pod, says := range map[string]string{
		"root": "container has runAsNonRoot and image will run as root",
		"name": "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root",
	} {
		n.WaitPod(pod, "to be refused", kit.StartTimeout, func(p v1.Pod) string {
			w := kit.AppStatus(p).State.Waiting
			return kit.MissingUnless(w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, says))
		})
	}
	n.WaitPod("root", "to have its neighbour", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(p.Status.ContainerStatuses[1].State.Running != nil) })
	n.WaitPod("confined", "to be rejected", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(p.Status.Reason == "AppArmor" && p.Status.Phase == v1.PodFailed)
	})
}

func TestTheSandboxHasTheIdentityOfItsPod(t *testing.T) {
	t.Parallel()
	// given pods with user IDs that see the process of their sandbox
	n := kit.NewNode(t)
	if err := os.Chmod(n.Dir, 0o711); err != nil { // users of their own have to find their files
		t.Fatal(err)
	}
	nonRoot := func(name string, edit func(*v1.PodSpec)) *v1.Pod {
		p := kit.ReadablePod(name)
		p.Spec.ShareProcessNamespace = new(true)
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1001)), FSGroup: new(int64(7))}
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: new(int64(2000))}
		edit(&p.Spec)
		return p
	}
	n.Apply("pods.yaml",
		nonRoot("shared", func(*v1.PodSpec) {}),
		nonRoot("mapped", func(s *v1.PodSpec) { s.HostUsers = new(false) }),
		nonRoot("group", func(s *v1.PodSpec) { s.SecurityContext.RunAsUser = nil }),
		nonRoot("processes", func(s *v1.PodSpec) { s.ShareProcessNamespace, s.HostPID = nil, true }))
	n.Start()
	pods := n.WaitRunning("shared", "mapped", "group", "processes")

	// then so is that process
	for _, name := range []string{"shared", "mapped"} {
		for field, want := range map[string]string{"Uid": "1000 1000 1000 1000", "Gid": "1001 1001 1001 1001"} {
			if got := n.ProcStatusOf(pods[name], "1", field); got != want {
				t.Errorf("%s: %s of the sandbox is %q, want %q", name, field, got, want)
			}
		}
		if got := n.ProcStatus(pods[name], "Uid"); got != "2000 2000 2000 2000" {
			t.Errorf("%s: the container is %s", name, got)
		}
	}
	// and without a user, it is who its image says
	if got := n.ProcStatusOf(pods["group"], "1", "Uid"); got != "65535 65535 65535 65535" {
		t.Errorf("group: the sandbox is %s", got)
	}
}

func TestVariablesFromAFile(t *testing.T) {
	t.Parallel()
	// given a pod whose init container writes what the others take
	n := kit.NewNode(t)
	p := kit.ReadablePod("web")
	p.Spec.Volumes = []v1.Volume{{Name: "config", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	writer := kit.NewContainer("writer", "write", "/config/env", "# made at the start\nCOLOUR='red'\nLINES='one\ntwo'\n")
	writer.VolumeMounts = []v1.VolumeMount{{Name: "config", MountPath: "/config"}}
	p.Spec.InitContainers = []v1.Container{writer}
	from := func(path, key string) *v1.EnvVarSource {
		return &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "config", Path: path, Key: key}}
	}
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "WALL", ValueFrom: from("env", "COLOUR")}, {Name: "TEXT", ValueFrom: from("env", "LINES")}}
	bad := p.DeepCopy()
	bad.Name = "bad"
	bad.Spec.Containers[0].Env[0].ValueFrom = from("env", "SIZE")
	n.Apply("pods.yaml", p, bad)
	n.Start()

	// then the first has them, and the waiting message of the other names the missing key
	got := n.WaitAnswer(n.WaitRunning("web")["web"].Status.PodIP+":7070", "/env")
	if !strings.Contains(got, "WALL=red\n") || !strings.Contains(got, "TEXT=one\ntwo\n") {
		t.Errorf("its variables are\n%s", got)
	}
	n.WaitPod("bad", "to say what is missing", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "couldn't find key SIZE in file env of volume config"))
	})
}

// stopSandboxOf stops the sandbox of a pod in the runtime, without the agent.
func stopSandboxOf(n *kit.Node, p v1.Pod) {
	n.T.Helper()
	for _, s := range n.Sandboxes() {
		if s.Labels[pod.LabelPodUID] == string(p.UID) {
			kit.MustCallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.StopPodSandboxResponse, error) {
				return c.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: s.Id})
			})
		}
	}
}

// archiveAs is an image of the workload with a user.
func archiveAs(t *testing.T, tag, user string) []byte {
	t.Helper()
	return kit.WorkloadArchive(t, tag, func(w io.Writer, image ociarchive.Image) error {
		image.User = user
		return ociarchive.Write(w, image)
	})
}
