package render

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/core/plan"
)

// securePod says something in every field that berth honours, in the pod and in
// its first container.
func securePod() *v1.Pod {
	p := webPod()
	p.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1001)), SupplementalGroups: []int64{5, 6},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		RunAsUser: new(int64(2000)), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		Capabilities:   &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined},
	}
	return p
}

func secured(t *testing.T, p *v1.Pod, c *v1.Container) *runtimeapi.LinuxContainerSecurityContext {
	t.Helper()
	got, err := security(p, c, Resolved{}, node)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWhatTheContainerSaysWinsOverItsPod(t *testing.T) {
	p := securePod()
	same(t, secured(t, p, &p.Spec.Containers[0]), &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions:   &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		RunAsUser:          &runtimeapi.Int64Value{Value: 2000},
		RunAsGroup:         &runtimeapi.Int64Value{Value: 1001},
		SupplementalGroups: []int64{5, 6},
		ReadonlyRootfs:     true,
		NoNewPrivs:         true,
		Capabilities:       &runtimeapi.Capability{AddCapabilities: []string{"NET_ADMIN"}, DropCapabilities: []string{"ALL"}},
		Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
		MaskedPaths:        maskedPaths, ReadonlyPaths: readonlyPaths,
	})
	same(t, secured(t, p, &p.Spec.Containers[1]), &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions:   &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		RunAsUser:          &runtimeapi.Int64Value{Value: 1000},
		RunAsGroup:         &runtimeapi.Int64Value{Value: 1001},
		SupplementalGroups: []int64{5, 6},
		Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		MaskedPaths:        maskedPaths, ReadonlyPaths: readonlyPaths,
	})
}

// Root and "may gain privileges" are said with zero values, and must not be
// taken for nothing said.
func TestZeroValuesCount(t *testing.T) {
	p := securePod()
	p.Spec.Containers[0].SecurityContext.RunAsUser = new(int64)
	p.Spec.Containers[0].SecurityContext.RunAsGroup = new(int64)
	p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true)
	got := secured(t, p, &p.Spec.Containers[0])
	if got.RunAsUser.GetValue() != 0 || got.RunAsUser == nil || got.RunAsGroup.GetValue() != 0 || got.RunAsGroup == nil || got.NoNewPrivs {
		t.Errorf("got %v", got)
	}
}

func TestAPrivilegedContainerSeesAll(t *testing.T) {
	p := webPod()
	p.Spec.Containers[1].SecurityContext = &v1.SecurityContext{Privileged: new(true)}
	got := secured(t, p, &p.Spec.Containers[1])
	if !got.Privileged || got.MaskedPaths != nil || got.ReadonlyPaths != nil {
		t.Errorf("got %v", got)
	}
	if secured(t, p, &p.Spec.Containers[0]).Privileged {
		t.Error("its neighbour is privileged, too")
	}
}

func TestWhatTheMachineHidesIsHidden(t *testing.T) {
	p := webPod()
	n := node
	n.MaskedPaths = []string{"/sys/devices/system/cpu/cpu0/thermal_throttle"}
	for range 2 { // the shared list must not be changed
		got, err := security(p, &p.Spec.Containers[0], Resolved{}, n)
		if want := append(slices.Clone(maskedPaths), n.MaskedPaths...); err != nil || !slices.Equal(got.GetMaskedPaths(), want) {
			t.Errorf("got %v, %v, want %v", got.GetMaskedPaths(), err, want)
		}
	}
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{ProcMount: new(v1.UnmaskedProcMount)}
	if got, err := security(p, &p.Spec.Containers[0], Resolved{}, n); err != nil || got.MaskedPaths != nil {
		t.Errorf("who may see all: %v, %v", got.GetMaskedPaths(), err)
	}
}

func TestASandboxRunsAsItsPod(t *testing.T) {
	user := func(p *v1.Pod) *runtimeapi.LinuxSandboxSecurityContext {
		c := sandbox(t, p, plan.CreateSandbox{}).Linux.SecurityContext
		return &runtimeapi.LinuxSandboxSecurityContext{
			RunAsUser: c.RunAsUser, RunAsGroup: c.RunAsGroup, SupplementalGroups: c.SupplementalGroups, SupplementalGroupsPolicy: c.SupplementalGroupsPolicy,
		}
	}
	p := securePod() // with one container of another user
	p.Spec.SecurityContext.FSGroup = new(int64(7))
	p.Spec.SecurityContext.SupplementalGroupsPolicy = new(v1.SupplementalGroupsPolicyStrict)
	same(t, user(p), &runtimeapi.LinuxSandboxSecurityContext{
		RunAsUser: &runtimeapi.Int64Value{Value: 1000}, RunAsGroup: &runtimeapi.Int64Value{Value: 1001},
		SupplementalGroups: []int64{5, 6, 7}, SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
	})
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64)} // root counts
	same(t, user(p), &runtimeapi.LinuxSandboxSecurityContext{RunAsUser: &runtimeapi.Int64Value{}})
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: new(int64(1001))} // runtimes refuse a group without a user
	same(t, user(p), &runtimeapi.LinuxSandboxSecurityContext{})
	p.Spec.SecurityContext = nil
	same(t, user(p), &runtimeapi.LinuxSandboxSecurityContext{})
}

func TestTheSandboxOfAPrivilegedContainerIsAnnounced(t *testing.T) {
	mighty := &v1.SecurityContext{Privileged: new(true)}
	for name, edit := range map[string]func(*v1.PodSpec){
		"a main one": func(s *v1.PodSpec) { s.Containers[1].SecurityContext = mighty },
		"an init container": func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{Name: "i"}, {Name: "j", SecurityContext: mighty}}
		},
		"a debug container": func(s *v1.PodSpec) {
			s.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", SecurityContext: mighty}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			if sandbox(t, p, plan.CreateSandbox{}).Linux.SecurityContext.Privileged {
				t.Error("without any, it is not")
			}
			edit(&p.Spec)
			if !sandbox(t, p, plan.CreateSandbox{}).Linux.SecurityContext.Privileged {
				t.Error("a runtime refuses a privileged container in a sandbox that is not")
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	const own, shared, machine = runtimeapi.NamespaceMode_CONTAINER, runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_NODE
	for name, test := range map[string]struct {
		edit func(*v1.PodSpec)
		want *runtimeapi.NamespaceOption
	}{
		"its own":           {func(*v1.PodSpec) {}, &runtimeapi.NamespaceOption{Pid: own}},
		"shared processes":  {func(s *v1.PodSpec) { s.ShareProcessNamespace = new(true) }, &runtimeapi.NamespaceOption{Pid: shared}},
		"not shared":        {func(s *v1.PodSpec) { s.ShareProcessNamespace = new(false) }, &runtimeapi.NamespaceOption{Pid: own}},
		"machine network":   {func(s *v1.PodSpec) { s.HostNetwork = true }, &runtimeapi.NamespaceOption{Pid: own, Network: machine}},
		"machine processes": {func(s *v1.PodSpec) { s.HostPID = true }, &runtimeapi.NamespaceOption{Pid: machine}},
		"machine memory":    {func(s *v1.PodSpec) { s.HostIPC = true }, &runtimeapi.NamespaceOption{Pid: own, Ipc: machine}},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			test.edit(&p.Spec)
			same(t, sandbox(t, p, plan.CreateSandbox{}).Linux.SecurityContext.NamespaceOptions, test.want)
			same(t, secured(t, p, &p.Spec.Containers[0]).NamespaceOptions, test.want)
		})
	}
}

func TestProfiles(t *testing.T) {
	local := func(name string) *v1.SeccompProfile {
		return &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}
	}
	unconfined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	runtimes := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	strict := Node{SeccompDir: "/root/seccomp", SeccompDefault: true}
	for name, test := range map[string]struct {
		profile *v1.SeccompProfile
		node    Node
		want    *runtimeapi.SecurityProfile // nil: an error
	}{
		"none said":                 {nil, Node{}, unconfined},
		"none said, with a default": {nil, strict, runtimes},
		"none wanted":               {&v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}, strict, unconfined},
		"the runtime's":             {&v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}, Node{}, runtimes},
		"a file":                    {local("a/b.json"), strict, &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "/root/seccomp/a/b.json"}},
		"a file elsewhere":          {local("../b.json"), strict, nil},
		"a file anywhere":           {local("/etc/shadow"), strict, nil},
		"no file":                   {local(""), strict, nil},
		"no file at all":            {&v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost}, strict, nil},
		"who knows":                 {&v1.SeccompProfile{Type: "Other"}, strict, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := seccomp(test.profile, test.node)
			if (err == nil) != (test.want != nil) {
				t.Fatalf("got %v, %v", got, err)
			}
			if err == nil {
				same(t, got, test.want)
			}
		})
	}
}

func FuzzSeccompProfilesStayInTheirFolder(f *testing.F) {
	for _, name := range []string{"a.json", "a/../b", "../x", "/x", ".", "a/../../b", "..", "a\x00b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := seccomp(&v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}, Node{SeccompDir: "/root/seccomp"})
		if err == nil && got.LocalhostRef != "/root/seccomp" && !strings.HasPrefix(got.LocalhostRef, "/root/seccomp/") {
			t.Errorf("%q leads to %q", name, got.LocalhostRef)
		}
	})
}

func TestWhatConfinesAContainerIsPassedOn(t *testing.T) {
	p := webPod()
	p.Spec.SecurityContext = &v1.PodSecurityContext{
		SELinuxOptions:           &v1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "s0:c1"},
		AppArmorProfile:          &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault},
		SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyStrict), SupplementalGroups: []int64{5}, FSGroup: new(int64(7)),
	}
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		SELinuxOptions:  &v1.SELinuxOptions{Level: "s0:c2"},
		AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine")},
		ProcMount:       new(v1.UnmaskedProcMount),
	}
	same(t, secured(t, p, &p.Spec.Containers[0]), &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions:         &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		SupplementalGroups:       []int64{5, 7},
		SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
		SelinuxOptions:           &runtimeapi.SELinuxOption{Level: "s0:c2"},
		Apparmor:                 &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "mine"},
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
	})
	other := secured(t, p, &p.Spec.Containers[1])
	same(t, other.SelinuxOptions, &runtimeapi.SELinuxOption{User: "u", Role: "r", Type: "t", Level: "s0:c1"})
	same(t, other.Apparmor, &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault})
	same(t, sandbox(t, p, plan.CreateSandbox{}).Linux.SecurityContext.SelinuxOptions, other.SelinuxOptions)

	p.Spec.Containers[0].SecurityContext.AppArmorProfile.LocalhostProfile = nil
	if got, err := security(p, &p.Spec.Containers[0], Resolved{}, node); err == nil {
		t.Errorf("a profile without a name was accepted: %v", got)
	}
}

func TestAPodWithUsersOfItsOwn(t *testing.T) {
	p := webPod()
	p.Spec.HostUsers = new(false)
	ids := IDs{First: 131072, Count: 65536}
	mapping := []*runtimeapi.IDMapping{{HostId: 131072, ContainerId: 0, Length: 65536}}
	want := &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: mapping, Gids: mapping}

	box, err := Sandbox(p, plan.CreateSandbox{}, ids, node)
	if err != nil {
		t.Fatal(err)
	}
	same(t, box.Linux.SecurityContext.NamespaceOptions.UsernsOptions, want)
	got := container(t, p, &p.Spec.Containers[0], plan.StartContainer{Name: "app"}, Resolved{
		IDs: ids, Hosts: "/pods/1/etc-hosts", Mounts: []Mount{{HostPath: "/data", ContainerPath: "/data"}},
	})
	same(t, got.Linux.SecurityContext.NamespaceOptions.UsernsOptions, want)
	for _, m := range got.Mounts { // else their files would belong to the user nobody
		if len(m.UidMappings) != 1 || m.UidMappings[0].HostId != 131072 || len(m.GidMappings) != 1 {
			t.Errorf("%s is mapped by %v and %v", m.ContainerPath, m.UidMappings, m.GidMappings)
		}
	}

	if _, err := Sandbox(p, plan.CreateSandbox{}, IDs{}, node); err == nil {
		t.Error("a pod without ids was accepted")
	}
	p.Spec.HostPID = true
	if _, err := Sandbox(p, plan.CreateSandbox{}, ids, node); err == nil {
		t.Error("a pod that is to see the processes of the machine was accepted")
	}
}
