package render

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
)

// memoryPod has one container with a request and a limit of memory, each of which may be empty.
func memoryPod(request, limit string) *v1.Pod {
	p := &v1.Pod{}
	p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceAPI}
	c := v1.Container{Name: "app", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}
	if request != "" {
		c.Resources.Requests[v1.ResourceMemory] = resource.MustParse(request)
	}
	if limit != "" {
		c.Resources.Limits[v1.ResourceMemory] = resource.MustParse(limit)
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

// guaranteed gives the container a limit of processor time, too.
func guaranteed(p *v1.Pod) *v1.Pod {
	r := &p.Spec.Containers[0].Resources
	r.Requests[v1.ResourceCPU], r.Limits[v1.ResourceCPU] = resource.MustParse("1"), resource.MustParse("1")
	return p
}

func TestMemoryQoS(t *testing.T) {
	const always = "memory.oom.group"
	none, tiered := &MemoryQoS{ThrottlingFactor: 0.9}, &MemoryQoS{ThrottlingFactor: 0.5, Tiered: true}
	for name, test := range map[string]struct {
		pod  *v1.Pod
		qos  *MemoryQoS
		want map[string]string
		// of the pod's cgroup
		min, low int64
	}{
		"without it":                         {memoryPod("64Mi", "128Mi"), nil, map[string]string{}, 0, 0},
		"between request and limit":          {memoryPod("100Mi", "200Mi"), none, map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "199229440"}, 0, 0},
		"rounded down to pages":              {memoryPod("1000", "10000"), none, map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "8192"}, 0, 0},
		"less than a page above the request": {memoryPod("8000", "8100"), none, map[string]string{"memory.min": "0", "memory.low": "0"}, 0, 0},
		"no limit: that of the node":         {memoryPod("100Mi", ""), none, map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "976850944"}, 0, 0},
		"nothing is asked for":               {memoryPod("", ""), tiered, map[string]string{"memory.min": "0", "memory.low": "0"}, 0, 0},
		"Burstable":                          {memoryPod("64Mi", "128Mi"), tiered, map[string]string{"memory.low": "67108864", "memory.high": "100663296"}, 0, 67108864},
		"Guaranteed":                         {guaranteed(memoryPod("64Mi", "64Mi")), tiered, map[string]string{"memory.min": "67108864"}, 67108864, 0},
	} {
		n := Node{CgroupV2: true, MemoryQoS: test.qos, AllocatableMemory: 1 << 30}
		got := resources(test.pod, &test.pod.Spec.Containers[0], n).GetUnified()
		delete(got, always)
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
		c := PodCgroup(test.pod, n)
		if c.ProtectMemory != (test.qos != nil) || c.MemoryMin != test.min || c.MemoryLow != test.low {
			t.Errorf("%s: the pod has %+v", name, c)
		}
	}
	v1Node := Node{MemoryQoS: tiered}
	if got := resources(memoryPod("64Mi", "128Mi"), &memoryPod("64Mi", "128Mi").Spec.Containers[0], v1Node).GetUnified(); len(got) > 0 {
		t.Errorf("v1 has %v", got)
	}
}

func TestLimitedSwap(t *testing.T) {
	critical := memoryPod("1Gi", "2Gi")
	critical.Spec.Priority = new(int32(2_000_000_000))
	static := memoryPod("1Gi", "2Gi")
	static.Annotations[pod.AnnotationSource] = pod.SourceFile
	for name, test := range map[string]struct {
		pod     *v1.Pod
		limited bool
		want    string
	}{
		"no swap by default":        {memoryPod("1Gi", "2Gi"), false, "0"},
		"the part of its request":   {memoryPod("1Gi", "2Gi"), true, "536870912"},
		"also without a limit":      {memoryPod("2Gi", ""), true, "1073741824"},
		"all memory is its own":     {memoryPod("1Gi", "1Gi"), true, "0"},
		"nothing is asked for":      {memoryPod("", ""), true, "0"},
		"Guaranteed":                {guaranteed(memoryPod("1Gi", "1Gi")), true, "0"},
		"critical":                  {critical, true, "0"},
		"static, which is critical": {static, true, "0"},
		"more than there is":        {memoryPod("16Gi", ""), true, "0"},
	} {
		n := Node{CgroupV2: true, SwapLimits: true, LimitedSwap: test.limited, Memory: 8 << 30, Swap: 4 << 30}
		if got := resources(test.pod, &test.pod.Spec.Containers[0], n).GetUnified()["memory.swap.max"]; got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
