//go:build real

package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/test/real/kit"
)

// stat is the mode and the owner of a file as a container sees it, and where it leads.
func stat(n *kit.Node, p v1.Pod, path string) string {
	n.T.Helper()
	return strings.TrimSpace(n.WaitAnswer(p.Status.PodIP+":7070", "/stat?path="+path))
}

func TestFilesAndVariablesAreAsAsked(t *testing.T) {
	t.Parallel()
	// given objects, and a pod that takes parts of them, each in its own way
	n := kit.NewNode(t)
	secret := kit.NewSecret("keys")
	secret.Data = map[string][]byte{"a": []byte("A"), "b": []byte("B")}
	settings := kit.NewConfigMap("settings", "red")
	p := kit.ReadablePod("web")
	p.Labels = map[string]string{"tier": "front"}
	kit.AddVolume(p, "/secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{
		SecretName: "keys", DefaultMode: new(int32(0o440)), Items: []v1.KeyToPath{{Key: "a", Path: "deep/one"}, {Key: "b", Path: "two", Mode: new(int32(0o400))}},
	}})
	kit.AddVolume(p, "/maybe", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: new(true)}})
	kit.AddVolume(p, "/about", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
		{Path: "tier", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}},
		{Path: "memory", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}},
	}}})
	p.Spec.Containers = append(p.Spec.Containers, kit.NewContainer("free", "sleep"))
	c := &p.Spec.Containers[0]
	c.Args = []string{"serve", ":$(PORT)"}
	c.Resources.Limits = kit.ResourceList("memory", "64Mi", "cpu", "1500m")
	c.Resources.Requests = kit.ResourceList("memory", "32Mi", "cpu", "1200m")
	c.EnvFrom = []v1.EnvFromSource{
		{Prefix: "K_", SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}}},
		{Prefix: "S_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
		{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: new(true)}},
	}
	c.Env = []v1.EnvVar{
		{Name: "CPUS", ValueFrom: amount("", "limits.cpu", "1m")},
		{Name: "WHO", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "HELLO", Value: "I am $(WHO), not $$(WHO) nor $(NOBODY)"},
		{Name: "PORT", Value: "7070"},
		{Name: "S_colour", Value: "$(S_colour) and $(K_a)"}, // in the place of that of the ConfigMap
		{Name: "SECRET", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}, Key: "b"}}},
		{Name: "ABSENT", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
			LocalObjectReference: v1.LocalObjectReference{Name: "settings"}, Key: "none", Optional: new(true),
		}}},
		{Name: "REQUESTED", ValueFrom: amount("", "requests.memory", "1Mi")},
		{Name: "ROUNDED", ValueFrom: amount("", "requests.cpu", "1")},
		{Name: "ALL", ValueFrom: amount("free", "limits.cpu", "1m")}, // who has no limit may use what pods have
	}
	n.ApplyObjects("all.yaml", secret, settings, p)
	n.Start()
	web := n.WaitRunning("web")["web"]

	// then it has them so
	for path, want := range map[string]string{"/secret/deep/one": "440 0:0", "/secret/two": "400 0:0"} {
		if got := stat(n, web, path); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"/secret/deep/one": "A", "/secret/two": "B", "/about/tier": "front", "/about/memory": "64"} {
		if got := n.ReadFile(web, path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	env := "\n" + n.WaitAnswer(web.Status.PodIP+":7070", "/env")
	cpus := resource.MustParse(n.MustBerth("get", "node", "-o", "jsonpath={.status.allocatable.cpu}"))
	for _, want := range []string{
		"S_colour=red and A", "CPUS=1500", "WHO=web-node", "HELLO=I am web-node, not $(WHO) nor $(NOBODY)", "K_a=A", "K_b=B", "SECRET=B",
		"REQUESTED=32", "ROUNDED=2", fmt.Sprint("ALL=", cpus.MilliValue()),
	} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("%s is not among its variables:%s", want, env)
		}
	}
	if strings.Contains(env, "ABSENT") {
		t.Errorf("a variable of a key that is not there is among\n%s", env)
	}
}

// amount refers to a limit or a request of a container, in multiples of a unit.
func amount(container, of, unit string) *v1.EnvVarSource {
	return &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: container, Resource: of, Divisor: resource.MustParse(unit)}}
}

func TestWhatPodsShareAndWhatTheyMayDo(t *testing.T) {
	t.Parallel()
	// given a node that confines all who do not object
	n := kit.NewNode(t)
	n.Configure("seccompDefault: true\npodPidsLimit: 77\n")
	if err := os.Chmod(n.Dir, 0o711); err != nil { // a user that the machine does not have has to find its files
		t.Fatal(err)
	}
	shares := kit.ReadablePod("shares")
	shares.Spec.ShareProcessNamespace = new(true)
	machine := kit.ReadablePod("machine")
	machine.Spec.HostIPC = true
	tuned := kit.ReadablePod("tuned")
	tuned.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "81"}}}
	unmasked := kit.ReadablePod("unmasked")
	unmasked.Spec.HostUsers = new(false)
	unmasked.Spec.Containers[0].SecurityContext = &v1.SecurityContext{ProcMount: new(v1.UnmaskedProcMount)}
	strict := kit.ReadablePod("strict")
	strict.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1001)), SupplementalGroups: []int64{5}, SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyStrict),
	}
	mighty := kit.ReadablePod("mighty")
	mighty.Spec.InitContainers = []v1.Container{kit.NewContainer("first", "link", "/dev/mine", "/"), kit.Sidecar(kit.NewContainer("beside", "sleep"))}
	for i := range mighty.Spec.InitContainers {
		mighty.Spec.InitContainers[i].SecurityContext = &v1.SecurityContext{Privileged: new(true)}
	}
	labelled := kit.ReadablePod("labelled")
	labelled.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "spc_t"}}
	n.Apply("pods.yaml", kit.ReadablePod("usual"), shares, machine, tuned, unmasked, strict, mighty, labelled)
	n.Start()

	// then all run, also the one that asks for a label: a machine without SELinux gives none
	pods := n.WaitRunning("usual", "shares", "machine", "tuned", "unmasked", "strict", "mighty", "labelled")

	// and each has what it asked for, and the usual one has not
	host, err := os.Readlink("/proc/self/ns/ipc")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		pod, path, part string
		is              bool
	}{
		{"shares", "/proc/1/cmdline", "pause", true},
		{"usual", "/proc/1/cmdline", "pause", false},
		{"tuned", "/proc/sys/net/ipv4/ip_unprivileged_port_start", "81", true},
		{"usual", "/proc/sys/net/ipv4/ip_unprivileged_port_start", "81", false},
		{"usual", "/proc/self/mountinfo", " /proc/sys ", true}, // read-only, on top of /proc
		{"unmasked", "/proc/self/mountinfo", " /proc/sys ", false},
	} {
		if got := n.ReadFile(pods[want.pod], want.path); strings.Contains(got, want.part) != want.is {
			t.Errorf("%s of %s holds %q", want.path, want.pod, got)
		}
	}
	for name, is := range map[string]bool{"machine": true, "usual": false} {
		if got := stat(n, pods[name], "/proc/self/ns/ipc"); strings.Contains(got, host) != is {
			t.Errorf("the ipc namespace of %s is %s, that of the machine %s", name, got, host)
		}
	}
	if got := n.ProcStatus(pods["usual"], "Seccomp"); got != "2" {
		t.Errorf("who does not say otherwise runs with seccomp mode %s", got)
	}
	if got := n.ProcStatus(pods["strict"], "Groups"); got != "5 1001" && got != "5" {
		t.Errorf("strict is in groups %s", got)
	}
	controller := "pids"
	if isCgroupV2() {
		controller = ""
	}
	if got := n.ReadCgroup(controller, filepath.Join("besteffort", fmt.Sprint("pod", pods["usual"].UID)), "pids.max"); got != "77" {
		t.Errorf("a pod may have %s processes", got)
	}
}

func TestTheResolverOfTheMachineMayChange(t *testing.T) {
	t.Parallel()
	// given a machine whose network comes up after the agent
	n := kit.NewNode(t)
	file := filepath.Join(n.Dir, "resolv.conf")
	n.Configure("resolvConf: " + file + "\n")
	n.Apply("early.yaml", kit.ReadablePod("early"))
	n.Start()
	n.WaitRunning("early")
	n.ReplaceFile(file, []byte("search example.com\nnameserver 192.0.2.53\n"))
	n.MustRun(t, "ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
	n.MustRun(t, "ip", "addr", "add", "192.0.2.10/24", "dev", "up0")
	n.MustRun(t, "ip", "link", "set", "up0", "up")

	// then a pod that comes now has its settings, and its address is known
	n.Apply("late.yaml", kit.ReadablePod("late"))
	n.MustContain(n.WaitRunning("late")["late"], "/etc/resolv.conf", "nameserver 192.0.2.53", "search example.com")
	n.WaitPod("late", "to know where it is", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(p.Status.HostIP == "192.0.2.10") })
}

func TestAContainerCantPlantItsWayOut(t *testing.T) {
	t.Parallel()
	// given a container that fills the volume which the next one sees a part of
	n := kit.NewNode(t)
	mustMake(n, filepath.Join(n.Dir, "precious"), "file")
	attack := func(name, target, sub string) *v1.Pod {
		p := kit.ReadablePod(name)
		kit.AddVolume(p, "/vol", scratch("", ""))
		p.Spec.Containers[0].VolumeMounts[0].SubPath = sub
		planter := kit.NewContainer("planter", "link", "/all/way-out", target)
		planter.VolumeMounts = []v1.VolumeMount{{Name: p.Spec.Volumes[0].Name, MountPath: "/all"}}
		p.Spec.InitContainers = []v1.Container{planter}
		return p
	}
	n.Apply("pods.yaml", attack("absolute", n.Dir, "way-out/precious"), attack("root", "/", "way-out/etc"), attack("up", "../../../../../..", "way-out"))
	n.Start()

	// then none of them gets to see anything
	for _, name := range []string{"absolute", "root", "up"} {
		n.WaitPod(name, "to be refused", kit.StartTimeout, func(p v1.Pod) string {
			w := kit.AppStatus(p).State.Waiting
			return kit.MissingUnless(w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "leads out of the volume"))
		})
	}
}
