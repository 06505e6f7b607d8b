package clitest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/api"
	"berth/internal/api/localapi"
	"berth/internal/lib/pod"
)

// fakeInventory has a node, two images, two volumes, a probe and a waterfall.
type fakeInventory struct{}

func (fakeInventory) Node(context.Context) (*v1.Node, error) { return NewNode(), nil }

func (fakeInventory) Images(context.Context) ([]api.Image, error) {
	return []api.Image{
		{ID: "sha256:0123456789abcdef", Tags: []string{"localhost/app:1", "localhost/app:2"}, Size: 5 << 20, Pods: []string{"x/web", "y/db"}},
		{ID: "sha256:fedc", Digests: []string{"localhost/old@sha256:aa"}, Size: 100, Pinned: true},
	}, nil
}

func (fakeInventory) Volumes(context.Context) ([]api.Volume, error) {
	return []api.Volume{
		{Namespace: "x", Pod: "web-node-1", UID: "x-web", Name: "data", Kind: "emptyDir", Source: "memory", Path: "/pods/x/data", Since: new(time.Now().Add(-2 * time.Hour)), Capacity: new(int64(64 << 20)), Used: new(int64(1 << 20))},
		{Namespace: "x", Pod: "db-node-1", UID: "x-db", Name: "files", Kind: "hostPath", Source: "/srv"},
	}, nil
}

func (fakeInventory) Probes(p *v1.Pod) []api.ProbeResult {
	return []api.ProbeResult{{Container: p.Spec.Containers[0].Name, Kind: "Readiness", At: time.Now(), Outcome: "failed", Output: "HTTP 503", InARow: 3}}
}

func (fakeInventory) Waterfall(uid pod.UID) (api.Waterfall, bool) {
	end := Noon().Add(time.Second)
	return api.Waterfall{Seen: Noon(), Phases: []api.Phase{{Name: "queue", Start: Noon(), End: &end}}}, uid == "x-web"
}

// ServeHTTP answers as the kubelet's API does.
func (fakeInventory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stats/summary" {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(newSummary())
}

// WithInventory gives a server a node, images, volumes, probes, a waterfall and statistics.
func WithInventory(c *localapi.Config) {
	c.Inventory, c.Waterfalls, c.Node = fakeInventory{}, fakeInventory{}, fakeInventory{}
}

// NewNode returns the Node of the fake inventory.
func NewNode() *v1.Node {
	amounts := v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", CreationTimestamp: metav1.NewTime(time.Now().Add(-3 * time.Hour)), Labels: map[string]string{"node-role.kubernetes.io/edge": ""}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "a", Value: "b", Effect: v1.TaintEffectNoExecute}}},
		Status: v1.NodeStatus{
			Capacity: amounts, Allocatable: amounts,
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "all is well", LastTransitionTime: BeforeNoon(time.Hour)}},
			NodeInfo:   v1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "Debian", KernelVersion: "6.1", ContainerRuntimeVersion: "containerd://2"},
		},
	}
}

func newSummary() stats.Summary {
	measured := func(cpu, memory uint64) (*stats.CPUStats, *stats.MemoryStats) {
		return &stats.CPUStats{UsageNanoCores: &cpu}, &stats.MemoryStats{WorkingSetBytes: &memory}
	}
	container := func(name string, cpu, memory uint64) stats.ContainerStats {
		c := stats.ContainerStats{Name: name}
		c.CPU, c.Memory = measured(cpu, memory)
		return c
	}
	web := stats.PodStats{
		PodRef:     stats.PodReference{Namespace: "x", Name: "web-node-1", UID: "x-web"},
		Containers: []stats.ContainerStats{container("app", 100e6, 64<<20), container("side", 1e6, 8<<20)},
	}
	db := stats.PodStats{PodRef: stats.PodReference{Namespace: "x", Name: "db-node-1", UID: "x-db"}, Containers: []stats.ContainerStats{{Name: "sql"}}}
	db.CPU, db.Memory = measured(5, 100<<20)
	s := stats.Summary{Node: stats.NodeStats{NodeName: "node-1"}, Pods: []stats.PodStats{web, db}}
	s.Node.CPU, s.Node.Memory = measured(500e6, 256<<20)
	return s
}
