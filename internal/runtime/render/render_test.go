package render

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/cgroupname"
	"berth/internal/lib/pod"
)

var node = Node{
	Name: "edge", Root: "0123abcd", LogsDir: "/logs", CgroupRoot: "/berth",
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

func sandbox(t *testing.T, p *v1.Pod, a plan.CreateSandbox) *SandboxConfig {
	t.Helper()
	got, err := Sandbox(p, a, IDs{}, node)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func container(t *testing.T, p *v1.Pod, c *v1.Container, a plan.StartContainer, r Resolved) *ContainerConfig {
	t.Helper()
	got, err := Container(p, c, a, r, node)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// same compares a message with what it should be, and shows both if it is not.
func same(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// containerd reads the usage of pods at this path, and takes the last component for the name of the slice.
func TestWithSystemdTheParentIsThePathOfASlice(t *testing.T) {
	sliced := node
	sliced.CgroupDriver = cgroupname.Systemd
	got, err := Sandbox(webPod(), plan.CreateSandbox{}, IDs{}, sliced)
	if want := "/berth.slice/berth-besteffort.slice/berth-besteffort-poduid_1.slice"; err != nil || got.GetLinux().GetCgroupParent() != want {
		t.Errorf("got %q, %v, want %q", got.GetLinux().GetCgroupParent(), err, want)
	}
}

func TestTheSandboxOfAPod(t *testing.T) {
	got := sandbox(t, webPod(), plan.CreateSandbox{Attempt: 2, Hash: "hash"})
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
			"app": "web", pod.LabelPodName: "web", pod.LabelPodNamespace: "shop", pod.LabelPodUID: "uid-1", pod.LabelRoot: "0123abcd",
		},
		Annotations: map[string]string{"note": "mine", pod.AnnotationSeen: "2030-01-01T12:00:00Z", pod.AnnotationSpecHash: "hash"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/berth/besteffort/poduid-1",
			Resources:    &runtimeapi.LinuxContainerResources{CpuShares: 2},
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
		},
	})
}

func TestALaterSandboxKeepsTheFirstSeenTime(t *testing.T) {
	first := time.Date(2029, 12, 31, 0, 0, 0, 5, time.UTC)
	got := sandbox(t, webPod(), plan.CreateSandbox{Attempt: 1, FirstSeen: first}).Annotations[pod.AnnotationSeen]
	if got != "2029-12-31T00:00:00.000000005Z" {
		t.Errorf("got %s", got)
	}
}

func TestAContainerOfAPod(t *testing.T) {
	p := webPod()
	a := plan.StartContainer{Name: "app", Hash: "hash", Attempt: 3, RestartCount: 1, Backoff: 40 * time.Second}
	env := []Variable{{"WHO", "nobody"}, {"WHO", "world"}, {"GREETING", "hello world"}}
	got := container(t, p, &p.Spec.Containers[0], a, Resolved{ImageRef: "sha256:1", Environment: env})
	same(t, got, &ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: "app", Attempt: 3},
		Image:      &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "localhost/app:1"},
		Command:    []string{"/app", "world"},
		Args:       []string{"--greet=hello world"},
		WorkingDir: "/srv",
		Envs:       []*runtimeapi.KeyValue{{Key: "WHO", Value: []byte("world")}, {Key: "GREETING", Value: []byte("hello world")}},
		Labels: map[string]string{
			pod.LabelPodName: "web", pod.LabelPodNamespace: "shop", pod.LabelPodUID: "uid-1", pod.LabelContainerName: "app", pod.LabelRoot: "0123abcd",
		},
		Annotations: map[string]string{
			pod.AnnotationSpecHash: "hash", pod.AnnotationRestartCount: "1", pod.AnnotationBackoff: "40s", pod.AnnotationRound: "0", pod.AnnotationGrace: "7",
		},
		LogPath: "app/3.log", Stdin: true, StdinOnce: true, Tty: true,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2, OomScoreAdj: 1000},
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
	box := sandbox(t, p, create)
	made := container(t, p, &p.Spec.Containers[0], start, Resolved{ImageRef: "sha256:1"})
	wantSandbox, wantContainer := proto.Clone(box), proto.Clone(made)

	// The receiver of a message may change it.
	box.Labels["x"], box.Annotations["x"], box.DnsConfig.Servers[0] = "y", "y", "y"
	security := made.Linux.SecurityContext
	security.SupplementalGroups[0], security.MaskedPaths[0], security.ReadonlyPaths[0] = -1, "/", "/"
	made.Command[0] = "y"

	same(t, sandbox(t, p, create), wantSandbox)
	same(t, container(t, p, &p.Spec.Containers[0], start, Resolved{ImageRef: "sha256:1"}), wantContainer)
	if !reflect.DeepEqual(p, untouched) {
		t.Error("the pod was changed")
	}
}

func TestAPodOnTheMachinesNetworkMapsNoPorts(t *testing.T) {
	p := webPod()
	p.Spec.HostNetwork = true
	if got := sandbox(t, p, plan.CreateSandbox{}).PortMappings; got != nil {
		t.Errorf("got %v", got)
	}
}

func TestLastWordsAreMounted(t *testing.T) {
	p := webPod()
	words := TerminationMessage{HostPath: "/pods/1/words", ContainerPath: "/dev/termination-log"}
	got := container(t, p, &p.Spec.Containers[0], plan.StartContainer{Name: "app"}, Resolved{TerminationMessage: words})
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
