package render

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/core/plan"
)

func amounts(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestResourcesOfAContainer(t *testing.T) {
	for name, test := range map[string]struct {
		requests, limits v1.ResourceList
		pod              *v1.ResourceRequirements
		node             Node
		want             *runtimeapi.LinuxContainerResources
	}{
		"nothing": {want: &runtimeapi.LinuxContainerResources{CpuShares: 2, OomScoreAdj: 1000}},
		"a share and a limit": {
			requests: amounts("cpu", "500m"), limits: amounts("cpu", "1500m", "memory", "64Mi"),
			want: &runtimeapi.LinuxContainerResources{
				CpuShares: 512, CpuPeriod: 100_000, CpuQuota: 150_000, MemoryLimitInBytes: 64 << 20, MemorySwapLimitInBytes: 64 << 20, OomScoreAdj: 999,
			},
		},
		"less than the kernel counts in": {
			requests: amounts("cpu", "1m"), limits: amounts("cpu", "1m"),
			want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100_000, CpuQuota: 1000, OomScoreAdj: 999},
		},
		"more than there is": {
			requests: amounts("cpu", "9E"), limits: amounts("cpu", "9E"),
			want: &runtimeapi.LinuxContainerResources{CpuShares: 262144, CpuPeriod: 100_000, CpuQuota: (1 << 30) * 100, OomScoreAdj: 999},
		},
		"a limit is a request, too": {
			limits: amounts("cpu", "1"),
			want:   &runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100_000, CpuQuota: 100_000, OomScoreAdj: 999},
		},
		"another period": {
			limits: amounts("cpu", "1"), node: Node{CPUPeriod: 20_000_000},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 20_000, CpuQuota: 20_000, OomScoreAdj: 999},
		},
		"no quota": {
			limits: amounts("cpu", "1"), node: Node{NoCPUQuota: true},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 1024, OomScoreAdj: 999},
		},
		"huge pages": {
			requests: amounts("cpu", "1", "hugepages-2Mi", "4Mi", "hugepages-1Gi", "1Gi"), limits: amounts("hugepages-2Mi", "4Mi", "hugepages-1Gi", "1Gi"),
			node: Node{PageSizes: []string{"1GB", "2MB"}},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 1024, OomScoreAdj: 999, HugepageLimits: []*runtimeapi.HugepageLimit{
				{PageSize: "1GB", Limit: 1 << 30}, {PageSize: "2MB", Limit: 4 << 20},
			}},
		},
		"huge pages of others": {
			requests: amounts("cpu", "1"), limits: amounts("hugepages-2Mi", "4Mi"), node: Node{PageSizes: []string{"1GB", "2MB"}},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 1024, OomScoreAdj: 999, HugepageLimits: []*runtimeapi.HugepageLimit{
				{PageSize: "1GB"}, {PageSize: "2MB", Limit: 4 << 20},
			}},
		},
		"huge pages of the pod": {
			limits: amounts("cpu", "1", "hugepages-1Gi", "1Gi"), node: Node{PageSizes: []string{"1GB", "2MB", "64KB"}},
			pod: &v1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "6Mi", "hugepages-1Gi", "2Gi")},
			want: &runtimeapi.LinuxContainerResources{
				CpuShares: 1024, CpuPeriod: 100_000, CpuQuota: 100_000, OomScoreAdj: 1000,
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "1GB", Limit: 1 << 30}, {PageSize: "2MB", Limit: 6 << 20}, {PageSize: "64KB"}},
			},
		},
		"the limits of the pod": {
			pod: &v1.ResourceRequirements{Limits: amounts("cpu", "2", "memory", "1Gi")},
			want: &runtimeapi.LinuxContainerResources{
				CpuShares: 2, CpuPeriod: 100_000, CpuQuota: 200_000, MemoryLimitInBytes: 1 << 30, MemorySwapLimitInBytes: 1 << 30, OomScoreAdj: -997,
			},
		},
		"cgroup v2": {
			node: Node{CgroupV2: true},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 2, OomScoreAdj: 1000, Unified: map[string]string{"memory.oom.group": "1"}},
		},
		"cgroup v2, which knows of swap": { // that no memory is limited must not let it swap
			node: Node{CgroupV2: true, SwapLimits: true},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 2, OomScoreAdj: 1000, Unified: map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			p.Spec.Containers = p.Spec.Containers[:1]
			p.Spec.Resources = test.pod
			c := &p.Spec.Containers[0]
			c.Resources = v1.ResourceRequirements{Requests: test.requests, Limits: test.limits}
			same(t, resources(p, c, test.node), test.want)
		})
	}
}

func TestWhoGoesFirstWhenMemoryRunsOut(t *testing.T) {
	const capacity = 1000 << 20
	always := v1.ContainerRestartPolicyAlways
	memory := func(m string) v1.ResourceRequirements { return v1.ResourceRequirements{Requests: amounts("memory", m)} }
	for name, test := range map[string]struct {
		edit func(*v1.PodSpec)
		want int64
	}{
		"nothing is promised": {func(*v1.PodSpec) {}, 1000},
		"a tenth is promised": {func(s *v1.PodSpec) { s.Containers[0].Resources = memory("100Mi") }, 900},
		"hardly any":          {func(s *v1.PodSpec) { s.Containers[0].Resources = memory("1Ki") }, 999},
		"all of it":           {func(s *v1.PodSpec) { s.Containers[0].Resources = memory("1000Mi") }, 3},
		"more than all":       {func(s *v1.PodSpec) { s.Containers[0].Resources = memory("9E") }, 3},
		"all that it may use": {func(s *v1.PodSpec) {
			s.Containers = s.Containers[:1]
			s.Containers[0].Resources.Limits = amounts("cpu", "1", "memory", "1Mi")
		}, -997},
		"the machine needs it": {func(s *v1.PodSpec) {
			s.Priority, s.PriorityClassName = new(int32(2_000_001_000)), "system-node-critical"
		}, -997},
		"it says that it does": {func(s *v1.PodSpec) { s.PriorityClassName = "system-node-critical" }, 1000},
		"the pod as a whole": {func(s *v1.PodSpec) {
			r := memory("300Mi")
			s.Resources = &r
			s.Containers[0].Resources = memory("100Mi")
		}, 800},
		"a sidecar of large ones": {func(s *v1.PodSpec) {
			s.Containers[0].Resources, s.Containers[1].Resources = memory("300Mi"), memory("200Mi")
			s.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always, Resources: memory("10Mi")}}
		}, 700},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			test.edit(&p.Spec)
			if got := oomScore(p, &p.Spec.Containers[0], capacity); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			if len(p.Spec.InitContainers) > 0 { // as late as the first of those that it serves
				if got := oomScore(p, &p.Spec.InitContainers[0], capacity); got != 800 {
					t.Errorf("the sidecar: got %d", got)
				}
			}
		})
	}
}

func TestTheCgroupOfAPod(t *testing.T) {
	limit := func(pairs ...string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Limits: amounts(pairs...), Requests: amounts(pairs...)}
	}
	n := Node{CgroupRoot: "/berth", PodPids: 100}
	for name, test := range map[string]struct {
		edit func(*v1.PodSpec)
		want Cgroup
	}{
		"best effort": {func(*v1.PodSpec) {}, Cgroup{Name: "/berth/besteffort/poduid-1", Shares: 2}},
		"guaranteed": {func(s *v1.PodSpec) {
			s.Containers[0].Resources, s.Containers[1].Resources = limit("cpu", "1", "memory", "1Mi"), limit("cpu", "500m", "memory", "2Mi")
		}, Cgroup{Name: "/berth/poduid-1", Shares: 1536, Quota: 150_000, Period: 100_000, Memory: 3 << 20}},
		"and with overhead": {func(s *v1.PodSpec) {
			s.Containers[0].Resources, s.Containers[1].Resources = limit("cpu", "1", "memory", "1Mi"), limit("cpu", "500m", "memory", "2Mi")
			s.Overhead = amounts("cpu", "500m", "memory", "1Mi")
		}, Cgroup{Name: "/berth/poduid-1", Shares: 2048, Quota: 200_000, Period: 100_000, Memory: 4 << 20}},
		"one has no limit": {func(s *v1.PodSpec) {
			s.Containers[0].Resources = limit("cpu", "1", "memory", "1Mi")
		}, Cgroup{Name: "/berth/burstable/poduid-1", Shares: 1024}},
		"an init container has none": {func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{Name: "i"}}
			s.Containers[0].Resources, s.Containers[1].Resources = limit("cpu", "1", "memory", "1Mi"), limit("cpu", "1", "memory", "1Mi")
		}, Cgroup{Name: "/berth/burstable/poduid-1", Shares: 2048}},
		"the pod has one": {func(s *v1.PodSpec) {
			s.Resources = &v1.ResourceRequirements{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "2", "memory", "8Mi")}
			s.Overhead = amounts("cpu", "1")
		}, Cgroup{Name: "/berth/burstable/poduid-1", Shares: 2048, Quota: 300_000, Period: 100_000, Memory: 8 << 20}},
		"huge pages": {func(s *v1.PodSpec) {
			s.Containers[0].Resources = limit("cpu", "1", "hugepages-2Mi", "4Mi")
			s.Containers[1].Resources = limit("cpu", "1", "hugepages-2Mi", "2Mi")
		}, Cgroup{Name: "/berth/burstable/poduid-1", Shares: 2048, Quota: 200_000, Period: 100_000, HugePages: map[string]int64{"2MB": 6 << 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			test.edit(&p.Spec)
			untouched := p.DeepCopy()
			test.want.Pids = 100
			if test.want.HugePages == nil {
				test.want.HugePages = map[string]int64{}
			}
			if got := PodCgroup(p, n); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
			if !reflect.DeepEqual(p, untouched) {
				t.Error("the pod was changed")
			}
			if got := n.Cgroups(p.UID); !contains(got, test.want.Name) {
				t.Errorf("it is not among %v", got)
			}
		})
	}
}

func TestTheCgroupOfAllPods(t *testing.T) {
	// given a machine of which a part is reserved
	has := amounts("cpu", "4", "memory", "8Gi", "pid", "32768", "ephemeral-storage", "1Ti", "hugepages-2Mi", "64Mi", "hugepages-1Gi", "0")
	reserved := amounts("cpu", "1500m", "memory", "1Gi", "pid", "768", "ephemeral-storage", "1Gi")

	// then pods have the rest, and all of its huge pages
	got, err := AllPods("/berth", has, reserved)
	want := Cgroup{Name: "/berth", Shares: 2560, Memory: 7 << 30, Pids: 32000, HugePages: map[string]int64{"2MB": 64 << 20, "1GB": 0}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err = AllPods("/berth", has, nil); err != nil || got.Shares != 4096 || got.Memory != 8<<30 || got.Pids != 32768 {
		t.Errorf("if nothing is reserved: got %+v, %v", got, err)
	}

	// Zero would mean no limit.
	for name, all := range map[string]string{"memory": "8Gi", "pid": "40k"} {
		if got, err := AllPods("/berth", has, amounts(name, all)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("if all %s is reserved: got %+v, %v", name, got, err)
		}
	}
}

func TestSizesOfHugePages(t *testing.T) {
	got := PageSizes(amounts("cpu", "1", "hugepages-2Mi", "0", "hugepages-1Gi", "1Gi", "hugepages-64Ki", "0"))
	if want := []string{"1GB", "2MB", "64KB"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

func TestASandboxHasTheResourcesOfItsPod(t *testing.T) {
	p := webPod()
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "2", "memory", "1Mi")}
	p.Spec.Overhead = amounts("cpu", "500m", "memory", "2Mi")
	got := sandbox(t, p, plan.CreateSandbox{}).Linux
	same(t, got.Overhead, &runtimeapi.LinuxContainerResources{CpuShares: 512, CpuPeriod: 100_000, CpuQuota: 50_000, MemoryLimitInBytes: 2 << 20})
	same(t, got.Resources, &runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100_000, CpuQuota: 200_000, MemoryLimitInBytes: 1 << 20})
}

func FuzzAmountsStayWithinWhatTheKernelTakes(f *testing.F) {
	f.Add(int64(1), int64(1), int64(1))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(0))
	f.Fuzz(func(t *testing.T, cpu, memory, capacity int64) {
		p := webPod()
		c := &p.Spec.Containers[0]
		list := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI)}
		c.Resources = v1.ResourceRequirements{Requests: list, Limits: list}
		got := resources(p, c, Node{Memory: capacity})
		if got.CpuShares < 2 || got.CpuShares > 262144 || got.CpuQuota < 0 || got.MemoryLimitInBytes < 0 || got.OomScoreAdj < -997 || got.OomScoreAdj > 1000 {
			t.Errorf("got %v", got)
		}
	})
}

func TestDaemonsGetWhatIsReserved(t *testing.T) {
	reserved := v1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi"), "pid": resource.MustParse("100"), "ephemeral-storage": resource.MustParse("1Gi")}
	if got, want := ReservedCgroup("/kube", reserved, false), (Cgroup{Name: "/kube", Shares: 512, Memory: 1 << 30, Pids: 100}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got, want := ReservedCgroup("/kube", reserved, true), (Cgroup{Name: "/kube", Shares: 512}); !reflect.DeepEqual(got, want) {
		t.Errorf("only what is compressible: got %+v", got)
	}
	if got, want := ReservedCgroup("/kube", v1.ResourceList{"memory": resource.MustParse("1Gi")}, true), (Cgroup{Name: "/kube"}); !reflect.DeepEqual(got, want) {
		t.Errorf("nothing: got %+v", got)
	}
}
