//go:build real

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// stat is the mode and the owner of a file as a container sees it, and where it leads.
func (n *node) stat(p v1.Pod, path string) string {
	n.t.Helper()
	return strings.TrimSpace(n.waitAnswer(p.Status.PodIP+":7070", "/stat?path="+path))
}

func TestFilesAndVariablesAreAsAsked(t *testing.T) {
	t.Parallel()
	// given objects, and a pod that takes parts of them, each in its own way
	n := newNode(t)
	secret := newSecret("keys")
	secret.Data = map[string][]byte{"a": []byte("A"), "b": []byte("B")}
	settings := newMap("settings", "red")
	p := open("web")
	p.Labels = map[string]string{"tier": "front"}
	mount(p, "/secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{
		SecretName: "keys", DefaultMode: new(int32(0o440)), Items: []v1.KeyToPath{{Key: "a", Path: "deep/one"}, {Key: "b", Path: "two", Mode: new(int32(0o400))}},
	}})
	mount(p, "/maybe", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: new(true)}})
	mount(p, "/about", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
		{Path: "tier", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}},
		{Path: "memory", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}},
	}}})
	p.Spec.Containers = append(p.Spec.Containers, newContainer("free", "sleep"))
	c := &p.Spec.Containers[0]
	c.Args = []string{"serve", ":$(PORT)"}
	c.Resources.Limits = amounts("memory", "64Mi", "cpu", "1500m")
	c.Resources.Requests = amounts("memory", "32Mi", "cpu", "1200m")
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
	n.save("all.yaml", secret, settings, p)
	n.start()
	web := n.waitRunning("web")["web"]

	// then it has them so
	for path, want := range map[string]string{"/secret/deep/one": "440 0:0", "/secret/two": "400 0:0"} {
		if got := n.stat(web, path); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"/secret/deep/one": "A", "/secret/two": "B", "/about/tier": "front", "/about/memory": "64"} {
		if got := n.contentOf(web, path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	env := "\n" + n.waitAnswer(web.Status.PodIP+":7070", "/env")
	cpus := resource.MustParse(n.must("get", "node", "-o", "jsonpath={.status.allocatable.cpu}"))
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

// amount is what a container may use or asks for, in units of that size.
func amount(container, of, unit string) *v1.EnvVarSource {
	return &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: container, Resource: of, Divisor: resource.MustParse(unit)}}
}

func TestWhatPodsShareAndWhatTheyMayDo(t *testing.T) {
	t.Parallel()
	// given a node that confines all who do not object
	n := newNode(t)
	n.configure("seccompDefault: true\npodPidsLimit: 77\n")
	if err := os.Chmod(n.dir, 0o711); err != nil { // who is nobody on the machine has to find its files
		t.Fatal(err)
	}
	shares := open("shares")
	shares.Spec.ShareProcessNamespace = new(true)
	machine := open("machine")
	machine.Spec.HostIPC = true
	tuned := open("tuned")
	tuned.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "81"}}}
	unmasked := open("unmasked")
	unmasked.Spec.HostUsers = new(false)
	unmasked.Spec.Containers[0].SecurityContext = &v1.SecurityContext{ProcMount: new(v1.UnmaskedProcMount)}
	strict := open("strict")
	strict.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1001)), SupplementalGroups: []int64{5}, SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyStrict),
	}
	mighty := open("mighty")
	mighty.Spec.InitContainers = []v1.Container{newContainer("first", "link", "/dev/mine", "/"), sidecar(newContainer("beside", "sleep"))}
	for i := range mighty.Spec.InitContainers {
		mighty.Spec.InitContainers[i].SecurityContext = &v1.SecurityContext{Privileged: new(true)}
	}
	labelled := open("labelled")
	labelled.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "spc_t"}}
	n.apply("pods.yaml", open("usual"), shares, machine, tuned, unmasked, strict, mighty, labelled)
	n.start()
	pods := n.waitRunning("usual", "shares", "machine", "tuned", "unmasked", "strict", "mighty")

	// then each has what it asked for, and the usual one has not
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
		if got := n.contentOf(pods[want.pod], want.path); strings.Contains(got, want.part) != want.is {
			t.Errorf("%s of %s holds %q", want.path, want.pod, got)
		}
	}
	for name, is := range map[string]bool{"machine": true, "usual": false} {
		if got := n.stat(pods[name], "/proc/self/ns/ipc"); strings.Contains(got, host) != is {
			t.Errorf("the ipc namespace of %s is %s, that of the machine %s", name, got, host)
		}
	}
	if got := n.field(pods["usual"], "Seccomp"); got != "2" {
		t.Errorf("who does not say otherwise runs with seccomp mode %s", got)
	}
	if got := n.field(pods["strict"], "Groups"); got != "5 1001" && got != "5" {
		t.Errorf("strict is in groups %s", got)
	}
	controller := "pids"
	if cgroupsV2() {
		controller = ""
	}
	if got := n.inCgroup(controller, filepath.Join("besteffort", fmt.Sprint("pod", pods["usual"].UID)), "pids.max"); got != "77" {
		t.Errorf("a pod may have %s processes", got)
	}
	// and who wants a label where nobody labels is told
	n.waitPod("labelled", "to be rejected", startLimit, func(p v1.Pod) string {
		return boolText(p.Status.Reason == "SELinux" && p.Status.Phase == v1.PodFailed)
	})
}

func TestTheResolverOfTheMachineMayChange(t *testing.T) {
	t.Parallel()
	// given a machine whose network comes up after the agent
	n := newNode(t)
	file := filepath.Join(n.dir, "resolv.conf")
	n.configure("resolvConf: " + file + "\n")
	n.apply("early.yaml", open("early"))
	n.start()
	n.waitRunning("early")
	n.put(file, []byte("search example.com\nnameserver 192.0.2.53\n"))
	n.mustRun(t, "ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
	n.mustRun(t, "ip", "addr", "add", "192.0.2.10/24", "dev", "up0")
	n.mustRun(t, "ip", "link", "set", "up0", "up")

	// then a pod that comes now has its settings, and its address is known
	n.apply("late.yaml", open("late"))
	n.mustHave(n.waitRunning("late")["late"], "/etc/resolv.conf", "nameserver 192.0.2.53", "search example.com")
	n.waitPod("late", "to know where it is", startLimit, func(p v1.Pod) string { return boolText(p.Status.HostIP == "192.0.2.10") })
}

func TestAContainerCantPlantItsWayOut(t *testing.T) {
	t.Parallel()
	// given a container that fills the volume which the next one sees a part of
	n := newNode(t)
	n.mustMake(filepath.Join(n.dir, "precious"), "file")
	attack := func(name, target, sub string) *v1.Pod {
		p := open(name)
		mount(p, "/vol", scratch("", ""))
		p.Spec.Containers[0].VolumeMounts[0].SubPath = sub
		planter := newContainer("planter", "link", "/all/way-out", target)
		planter.VolumeMounts = []v1.VolumeMount{{Name: p.Spec.Volumes[0].Name, MountPath: "/all"}}
		p.Spec.InitContainers = []v1.Container{planter}
		return p
	}
	n.apply("pods.yaml", attack("absolute", n.dir, "way-out/precious"), attack("root", "/", "way-out/etc"), attack("up", "../../../../../..", "way-out"))
	n.start()

	// then none of them gets to see anything
	for _, name := range []string{"absolute", "root", "up"} {
		n.waitPod(name, "to be refused", startLimit, func(p v1.Pod) string {
			w := app(p).State.Waiting
			return boolText(w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "leads out of the volume"))
		})
	}
}
