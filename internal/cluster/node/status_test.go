package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const gi = int64(1) << 30

func someFacts() Facts {
	return Facts{
		Machine: Machine{
			CPUs: 4, Memory: 8 * gi, Storage: 100 * gi, Swap: gi, HugePages: map[int64]int64{2 << 20: gi},
			MachineID: "machine", SystemUUID: "uuid", BootID: "boot", Kernel: "6.18", OSImage: "Some Linux",
		},
		Runtime:   Runtime{Name: "containerd", Version: "v2.4.2", Handlers: []v1.NodeRuntimeHandler{{Name: "runc"}}},
		Addresses: []string{"10.0.0.7", "fd00::7"},
	}
}

func TestKubeletVersionCanBeCompared(t *testing.T) {
	for berth, want := range map[string]string{
		"0.4.1":         "v1.36.3+berth-0.4.1",
		"v0.4.1-3-gabc": "v1.36.3+berth-0.4.1-3-gabc",
		"dev":           "v1.36.3+berth-dev",
		"1+x y/z..é":    "v1.36.3+berth-1-x-y-z.-",
		"":              "v1.36.3",
	} {
		got := KubeletVersion(berth)
		if got != want {
			t.Errorf("%q gives %q, want %q", berth, got, want)
		}
		parsed, err := version.ParseSemantic(got)
		if err != nil {
			t.Errorf("%q: %v", got, err)
			continue
		}
		if order, err := parsed.Compare(Kubernetes); err != nil || order != 0 {
			t.Errorf("%q is not equal to %s: %d, %v", got, Kubernetes, order, err)
		}
	}
}

func TestBuildIsAllThatAClusterExpects(t *testing.T) {
	taint := v1.Taint{Key: "dedicated", Value: "x", Effect: v1.TaintEffectNoSchedule}
	n := Build(someFacts(), Settings{
		Name: "box", Version: "0.4", Labels: map[string]string{"shelf": "3"}, Taints: []v1.Taint{taint}, ProviderID: "p://1", Port: 10250,
	}, Health{}, noon)

	for key, want := range map[string]string{
		"kubernetes.io/hostname": "box", "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "shelf": "3",
	} {
		if n.Labels[key] != want {
			t.Errorf("label %s is %q", key, n.Labels[key])
		}
	}
	if n.Labels["kubernetes.io/arch"] == "" || n.Annotations[attachAnnotation] != "true" {
		t.Errorf("labels %v, annotations %v", n.Labels, n.Annotations)
	}
	if !slices.Equal(n.Spec.Taints, []v1.Taint{taint}) || n.Spec.ProviderID != "p://1" {
		t.Errorf("spec %v", n.Spec)
	}
	wantAddresses := []v1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.7"}, {Type: "InternalIP", Address: "fd00::7"}, {Type: "Hostname", Address: "box"}}
	if !slices.Equal(n.Status.Addresses, wantAddresses) {
		t.Errorf("addresses %v", n.Status.Addresses)
	}
	info := n.Status.NodeInfo
	if info.ContainerRuntimeVersion != "containerd://2.4.2" || info.KubeletVersion != "v1.36.3+berth-0.4" ||
		info.BootID != "boot" || info.OSImage != "Some Linux" || *info.Swap.Capacity != gi {
		t.Errorf("node info %+v", info)
	}
	if n.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 || len(n.Status.RuntimeHandlers) != 1 {
		t.Errorf("status %+v", n.Status)
	}
	if c := find(n.Status.Conditions, v1.NodeReady); c == nil || c.Status != v1.ConditionTrue || c.Reason != "KubeletReady" {
		t.Errorf("ready: %v", c)
	}
}

// A kubelet that was here before handed out devices. berth does not.
func TestDevicesOfAnotherKubeletAreNotOffered(t *testing.T) {
	for version, want := range map[string]int64{"v1.36.3": 0, "v1.36.3+berth-0.4": 8, "": 8} {
		shown := v1.NodeStatus{Capacity: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}
		shown.NodeInfo.KubeletVersion = version
		got := Status(someFacts(), Settings{Name: "box", Version: "0.4"}, Health{}, shown, noon)
		again := Status(someFacts(), Settings{Name: "box", Version: "0.4"}, Health{}, got, noon)
		for _, list := range []v1.ResourceList{got.Capacity, got.Allocatable, again.Allocatable} {
			if q, there := list["nvidia.com/gpu"]; !there || q.Value() != want {
				t.Errorf("after %q: %v", version, list)
			}
		}
	}
}

func TestAllocatableIsWhatIsLeft(t *testing.T) {
	quantity := resource.MustParse
	s := Settings{
		Name: "box", PodsPerCore: 10,
		Reserved: v1.ResourceList{v1.ResourceCPU: quantity("500m"), v1.ResourceMemory: quantity("1Gi"), "pid": quantity("100")},
		Limits:   Thresholds{Memory: Threshold{Amount: 100 << 20}, Disk: Threshold{Percent: 10}, ImageDisk: Threshold{Percent: 50}},
	}
	shown := v1.NodeStatus{
		Capacity:    v1.ResourceList{"example.com/dongle": quantity("3"), "hugepages-1Gi": quantity("4Gi")},
		Allocatable: v1.ResourceList{"hugepages-1Gi": quantity("4Gi")},
	}
	got := Status(someFacts(), s, Health{}, shown, noon)
	for name, want := range map[v1.ResourceName][2]string{
		"cpu":                {"4", "3500m"},
		"memory":             {"8Gi", "6044Mi"}, // less a reserve, a threshold and the huge pages
		"ephemeral-storage":  {"100Gi", "90Gi"},
		"hugepages-2Mi":      {"1Gi", "1Gi"},
		"pods":               {"40", "40"},
		"example.com/dongle": {"3", "3"}, // of another program
	} {
		capacity, allocatable := got.Capacity[name], got.Allocatable[name]
		if capacity.Cmp(quantity(want[0])) != 0 || allocatable.Cmp(quantity(want[1])) != 0 {
			t.Errorf("%s: %s of %s, want %v", name, allocatable.String(), capacity.String(), want)
		}
	}
	if len(got.Capacity) != 6 || len(got.Allocatable) != 6 {
		t.Errorf("capacity %v, allocatable %v", got.Capacity, got.Allocatable)
	}

	s.Reserved[v1.ResourceCPU] = quantity("9")
	if q := Status(someFacts(), s, Health{}, shown, noon).Allocatable[v1.ResourceCPU]; !q.IsZero() {
		t.Errorf("with more reserved than there is, %s are left", q.String())
	}
	if q := capacity(Machine{CPUs: 2}, Settings{})[v1.ResourcePods]; q.Value() != 110 {
		t.Errorf("%v pods by default", q.Value())
	}
}

func TestTheLargestImagesAreShown(t *testing.T) {
	var images []v1.ContainerImage
	for i := range int64(60) {
		images = append(images, v1.ContainerImage{Names: strings.Split(fmt.Sprintf("%c,b,c,d,e,f,g", 'z'-rune(i%9)), ","), SizeBytes: i / 2})
	}
	for limit, want := range map[int]int{0: 50, 3: 3, -1: 60} {
		got := largest(images, limit)
		if len(got) != want || got[0].SizeBytes != 29 || len(got[0].Names) != 5 {
			t.Errorf("limit %d gives %d, the first %v", limit, len(got), got[0])
		}
		if got[0].Names[0] > got[1].Names[0] {
			t.Errorf("equal ones are not in order: %v, %v", got[0], got[1])
		}
	}
	if len(images[0].Names) != 7 {
		t.Error("the images that were given have changed")
	}
}
