package render

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/plan"
	"berth/internal/pod"
)

var node = Node{
	Name: "edge", LogsDir: "/logs", CgroupRoot: "/berth",
	DNS: DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"lan"}, Options: []string{"ndots:1"}},
}

func webPod() *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "web", "shop", "uid-1"
	p.Labels = map[string]string{"app": "web", pod.LabelPodName: "a lie"}
	p.Annotations = map[string]string{"note": "mine", pod.AnnotationSeen: "2030-01-01T12:00:00Z", pod.AnnotationSpecHash: "a lie"}
	p.Spec.TerminationGracePeriodSeconds = new(int64(7))
	p.Spec.Containers = []v1.Container{
		{
			Name: "app", Image: "localhost/app:1", Command: []string{"/app", "$(WHO)"}, Args: []string{"--greet=$(GREETING)"},
			WorkingDir: "/srv", Stdin: true, StdinOnce: true, TTY: true,
			Env:   []v1.EnvVar{{Name: "WHO", Value: "world"}, {Name: "GREETING", Value: "hello $(WHO)"}},
			Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1", Protocol: v1.ProtocolTCP}, {ContainerPort: 81}},
		},
		{Name: "dns", Image: "localhost/dns:1", Ports: []v1.ContainerPort{
			{ContainerPort: 53, HostPort: 5353, Protocol: v1.ProtocolUDP}, {ContainerPort: 9, HostPort: 9, Protocol: v1.ProtocolSCTP},
		}},
	}
	return p
}

// same compares a message with what it should be, and shows both if it is not.
func same(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestTheSandboxOfAPod(t *testing.T) {
	got := Sandbox(webPod(), plan.CreateSandbox{Attempt: 2, Hash: "hash"}, node)
	same(t, got, &SandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "uid-1", Attempt: 2},
		Hostname:     "web",
		LogDirectory: "/logs/shop_web_uid-1",
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"lan"}, Options: []string{"ndots:1"}},
		PortMappings: []*runtimeapi.PortMapping{
			{Protocol: runtimeapi.Protocol_TCP, ContainerPort: 80, HostPort: 8080, HostIp: "127.0.0.1"},
			{Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53, HostPort: 5353},
			{Protocol: runtimeapi.Protocol_SCTP, ContainerPort: 9, HostPort: 9},
		},
		Labels: map[string]string{
			"app": "web", pod.LabelPodName: "web", pod.LabelPodNamespace: "shop", pod.LabelPodUID: "uid-1",
		},
		Annotations: map[string]string{"note": "mine", pod.AnnotationSeen: "2030-01-01T12:00:00Z", pod.AnnotationSpecHash: "hash"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/berth/poduid-1",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
		},
	})
}

func TestALaterSandboxKeepsTheFirstSeenTime(t *testing.T) {
	first := time.Date(2029, 12, 31, 0, 0, 0, 5, time.UTC)
	got := Sandbox(webPod(), plan.CreateSandbox{Attempt: 1, FirstSeen: first}, node).Annotations[pod.AnnotationSeen]
	if got != "2029-12-31T00:00:00.000000005Z" {
		t.Errorf("got %s", got)
	}
}

func TestAContainerOfAPod(t *testing.T) {
	p := webPod()
	a := plan.StartContainer{Name: "app", Hash: "hash", RestartCount: 3, Backoff: 40 * time.Second}
	env := []Variable{{"WHO", "nobody"}, {"WHO", "world"}, {"GREETING", "hello world"}}
	got := Container(p, &p.Spec.Containers[0], a, Resolved{ImageRef: "sha256:1", Environment: env}, node)
	same(t, got, &ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: "app", Attempt: 3},
		Image:      &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "localhost/app:1"},
		Command:    []string{"/app", "world"},
		Args:       []string{"--greet=hello world"},
		WorkingDir: "/srv",
		Envs:       []*runtimeapi.KeyValue{{Key: "WHO", Value: []byte("world")}, {Key: "GREETING", Value: []byte("hello world")}},
		Labels: map[string]string{
			pod.LabelPodName: "web", pod.LabelPodNamespace: "shop", pod.LabelPodUID: "uid-1", pod.LabelContainerName: "app",
		},
		Annotations: map[string]string{
			pod.AnnotationSpecHash: "hash", pod.AnnotationRestartCount: "3", pod.AnnotationBackoff: "40s", pod.AnnotationRound: "0", pod.AnnotationGrace: "7",
		},
		LogPath: "app/3.log", Stdin: true, StdinOnce: true, Tty: true,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
				MaskedPaths:      maskedPaths, ReadonlyPaths: readonlyPaths,
			},
		},
	})
}

func TestRenderingIsPure(t *testing.T) {
	p := securePod()
	untouched := p.DeepCopy()
	create, start := plan.CreateSandbox{Hash: "s"}, plan.StartContainer{Name: "app", Hash: "c"}
	sandbox := Sandbox(p, create, node)
	container := Container(p, &p.Spec.Containers[0], start, Resolved{ImageRef: "sha256:1"}, node)
	wantSandbox, wantContainer := proto.Clone(sandbox), proto.Clone(container)

	// Whoever gets a message may change it.
	sandbox.Labels["x"], sandbox.Annotations["x"], sandbox.DnsConfig.Servers[0] = "y", "y", "y"
	security := container.Linux.SecurityContext
	security.SupplementalGroups[0], security.MaskedPaths[0], security.ReadonlyPaths[0] = -1, "/", "/"
	container.Command[0] = "y"

	same(t, Sandbox(p, create, node), wantSandbox)
	same(t, Container(p, &p.Spec.Containers[0], start, Resolved{ImageRef: "sha256:1"}, node), wantContainer)
	if !reflect.DeepEqual(p, untouched) {
		t.Error("the pod was changed")
	}
}

func TestHostNames(t *testing.T) {
	long := strings.Repeat("a", 62)
	for name, test := range map[string]struct {
		edit func(*v1.Pod)
		want string
	}{
		"the pod's name":         {func(*v1.Pod) {}, "web"},
		"one of its own":         {func(p *v1.Pod) { p.Spec.Hostname = "shop" }, "shop"},
		"the machine's":          {func(p *v1.Pod) { p.Spec.HostNetwork, p.Spec.Hostname = true, "shop" }, ""},
		"as long as it may be":   {func(p *v1.Pod) { p.Name = long + "b" }, long + "b"},
		"too long":               {func(p *v1.Pod) { p.Name = long + "bc" }, long + "b"},
		"cut at a dash":          {func(p *v1.Pod) { p.Name = long + "-c" }, long},
		"cut at dots and dashes": {func(p *v1.Pod) { p.Name = long[:60] + ".-.c" }, long[:60]},
	} {
		p := webPod()
		test.edit(p)
		if got := Sandbox(p, plan.CreateSandbox{}, node).Hostname; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestResolvers(t *testing.T) {
	extra := &v1.PodDNSConfig{
		Nameservers: []string{"198.51.100.1"}, Searches: []string{"shop"},
		Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "rotate"}},
	}
	for name, test := range map[string]struct {
		policy v1.DNSPolicy
		extra  *v1.PodDNSConfig
		want   *runtimeapi.DNSConfig
	}{
		"default":       {v1.DNSDefault, nil, &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"lan"}, Options: []string{"ndots:1"}}},
		"cluster first": {v1.DNSClusterFirst, nil, &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"lan"}, Options: []string{"ndots:1"}}},
		"default and more": {v1.DNSDefault, extra, &runtimeapi.DNSConfig{
			Servers: []string{"192.0.2.53", "198.51.100.1"}, Searches: []string{"lan", "shop"}, Options: []string{"ndots:1", "ndots:2", "rotate"},
		}},
		"none but its own": {v1.DNSNone, extra, &runtimeapi.DNSConfig{
			Servers: []string{"198.51.100.1"}, Searches: []string{"shop"}, Options: []string{"ndots:2", "rotate"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			p.Spec.DNSPolicy, p.Spec.DNSConfig = test.policy, test.extra
			same(t, Sandbox(p, plan.CreateSandbox{}, node).DnsConfig, test.want)
		})
	}
	if len(node.DNS.Servers) != 1 {
		t.Error("the machine's own settings were changed")
	}
}

func TestAPodOnTheMachinesNetworkMapsNoPorts(t *testing.T) {
	p := webPod()
	p.Spec.HostNetwork = true
	if got := Sandbox(p, plan.CreateSandbox{}, node).PortMappings; got != nil {
		t.Errorf("got %v", got)
	}
}

func TestLastWordsAreMounted(t *testing.T) {
	p := webPod()
	words := LastWords{HostPath: "/pods/1/words", ContainerPath: "/dev/termination-log"}
	got := Container(p, &p.Spec.Containers[0], plan.StartContainer{Name: "app"}, Resolved{LastWords: words}, node)
	if len(got.Mounts) != 1 || got.Mounts[0].HostPath != words.HostPath || got.Mounts[0].ContainerPath != words.ContainerPath || got.Mounts[0].Readonly {
		t.Errorf("mounts %v", got.Mounts)
	}
}

func TestStopSignals(t *testing.T) {
	for name, want := range map[v1.Signal]runtimeapi.Signal{
		v1.SIGTERM: runtimeapi.Signal_SIGTERM, v1.SIGUSR1: runtimeapi.Signal_SIGUSR1,
		v1.SIGRTMINPLUS3: runtimeapi.Signal_SIGRTMINPLUS3, v1.SIGRTMAXMINUS2: runtimeapi.Signal_SIGRTMAXMINUS2,
	} {
		c := &v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: &name}}
		if got := stopSignal(c); got != want {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if got := stopSignal(&v1.Container{}); got != runtimeapi.Signal_RUNTIME_DEFAULT {
		t.Errorf("none given: got %s", got)
	}
}
