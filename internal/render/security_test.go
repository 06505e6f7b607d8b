package render

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/plan"
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

func TestWhatTheContainerSaysWinsOverItsPod(t *testing.T) {
	p := securePod()
	same(t, security(p, &p.Spec.Containers[0], ""), &runtimeapi.LinuxContainerSecurityContext{
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
	same(t, security(p, &p.Spec.Containers[1], ""), &runtimeapi.LinuxContainerSecurityContext{
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
	got := security(p, &p.Spec.Containers[0], "")
	if got.RunAsUser.GetValue() != 0 || got.RunAsUser == nil || got.RunAsGroup.GetValue() != 0 || got.RunAsGroup == nil || got.NoNewPrivs {
		t.Errorf("got %v", got)
	}
}

func TestAPrivilegedContainerSeesAll(t *testing.T) {
	p := webPod()
	p.Spec.Containers[1].SecurityContext = &v1.SecurityContext{Privileged: new(true)}
	got := security(p, &p.Spec.Containers[1], "")
	if !got.Privileged || got.MaskedPaths != nil || got.ReadonlyPaths != nil {
		t.Errorf("got %v", got)
	}
	if security(p, &p.Spec.Containers[0], "").Privileged {
		t.Error("its neighbour is privileged, too")
	}
	if !Sandbox(p, plan.CreateSandbox{}, node).Linux.SecurityContext.Privileged {
		t.Error("a runtime refuses a privileged container in a sandbox that is not")
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
			same(t, Sandbox(p, plan.CreateSandbox{}, node).Linux.SecurityContext.NamespaceOptions, test.want)
			same(t, security(p, &p.Spec.Containers[0], "").NamespaceOptions, test.want)
		})
	}
}

func TestResources(t *testing.T) {
	for name, test := range map[string]struct {
		requests, limits v1.ResourceList
		want             *runtimeapi.LinuxContainerResources
	}{
		"nothing": {nil, nil, &runtimeapi.LinuxContainerResources{CpuShares: 2}},
		"a share and a limit": {
			v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")},
			v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m"), v1.ResourceMemory: resource.MustParse("64Mi")},
			&runtimeapi.LinuxContainerResources{CpuShares: 512, CpuPeriod: 100_000, CpuQuota: 150_000, MemoryLimitInBytes: 64 << 20},
		},
		"less than the kernel counts in": {
			v1.ResourceList{v1.ResourceCPU: resource.MustParse("1m")},
			v1.ResourceList{v1.ResourceCPU: resource.MustParse("1m")},
			&runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100_000, CpuQuota: 1000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1.Container{Resources: v1.ResourceRequirements{Requests: test.requests, Limits: test.limits}}
			same(t, resources(c), test.want)
		})
	}
}
