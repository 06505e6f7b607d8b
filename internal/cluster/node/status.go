package node

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	defaultMaxPods   = 110
	defaultMaxImages = 50
	// maxNames is how many names of one image the Node lists.
	maxNames = 5
)

// Status returns the status that the Node should have. Conditions and resources that other
// programs put into shown, its present status, are kept. It reads no clock and touches nothing.
func Status(f Facts, s Settings, h Health, shown v1.NodeStatus, now time.Time) v1.NodeStatus {
	want := *shown.DeepCopy()
	ours := capacity(f.Machine, s)
	want.Capacity = overlay(announced(shown), ours)
	// Extended resources that other programs announced as capacity are allocatable, too: the
	// cluster counts on the node to say so.
	want.Allocatable = overlay(want.Capacity, allocatable(ours, s))
	want.Conditions = conditions(h, shown.Conditions, now)
	want.Addresses = addresses(f.Addresses, s, shown.Addresses)
	want.DaemonEndpoints.KubeletEndpoint.Port = s.Port
	want.NodeInfo = nodeInfo(f, s)
	want.Images = largest(f.Runtime.Images, s.MaxImages)
	want.RuntimeHandlers = f.Runtime.Handlers
	want.Features = f.Runtime.Features
	want.DeclaredFeatures = s.DeclaredFeatures
	want.VolumesInUse = f.Volumes.inUse(shown.VolumesInUse)
	return want
}

// Capacity returns the resources that a machine has in all.
func Capacity(m Machine, s Settings) v1.ResourceList { return capacity(m, s) }

// Allocatable returns the resources of a machine that all pods together may request.
func Allocatable(m Machine, s Settings) v1.ResourceList { return allocatable(capacity(m, s), s) }

func nodeInfo(f Facts, s Settings) v1.NodeSystemInfo {
	m := f.Machine
	info := v1.NodeSystemInfo{
		MachineID:       m.MachineID,
		SystemUUID:      m.SystemUUID,
		BootID:          m.BootID,
		KernelVersion:   m.Kernel,
		OSImage:         m.OSImage,
		KubeletVersion:  KubeletVersion(s.Version),
		OperatingSystem: runtime.GOOS,
		Architecture:    runtime.GOARCH,
	}
	if f.Runtime.Name != "" {
		info.ContainerRuntimeVersion = f.Runtime.Name + "://" + strings.TrimPrefix(f.Runtime.Version, "v") // as the kubelet writes it
	}
	if m.Swap > 0 {
		info.Swap = &v1.NodeSwapStatus{Capacity: &m.Swap}
	}
	return info
}

// largest returns the images that are largest, and so cost most to pull again: a scheduler
// prefers nodes that have them.
func largest(images []v1.ContainerImage, limit int) []v1.ContainerImage {
	if limit == 0 {
		limit = defaultMaxImages
	}
	// Equal sizes go by name, so that the same images always make the same list.
	sorted := slices.SortedStableFunc(slices.Values(images), func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), strings.Compare(firstName(a), firstName(b)))
	})
	if limit > 0 && len(sorted) > limit {
		sorted = sorted[:limit]
	}
	for i := range sorted {
		names := sorted[i].Names
		sorted[i].Names = names[:min(len(names), maxNames):min(len(names), maxNames)]
	}
	return sorted
}

func firstName(image v1.ContainerImage) string {
	if len(image.Names) == 0 {
		return ""
	}
	return image.Names[0]
}

// capacity returns the resources that the machine has in all.
func capacity(m Machine, s Settings) v1.ResourceList {
	pods := cmp.Or(s.MaxPods, defaultMaxPods)
	if s.PodsPerCore > 0 {
		pods = min(pods, s.PodsPerCore*int64(m.CPUs))
	}
	out := v1.ResourceList{
		v1.ResourceCPU:              *resource.NewQuantity(int64(m.CPUs), resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(m.Memory, resource.BinarySI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(m.Storage, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
	}
	for size, bytes := range m.HugePages {
		out[hugePages(size)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	return out
}

// hugePages is the name of the resource for pages of a size in bytes.
func hugePages(size int64) v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String())
}

// allocatable returns the part of the capacity that pods may request.
func allocatable(capacity v1.ResourceList, s Settings) v1.ResourceList {
	out := v1.ResourceList{}
	for name, all := range capacity {
		left := all.DeepCopy()
		left.Sub(s.Reserved[name])
		switch name {
		case v1.ResourceMemory:
			left.Sub(s.Limits.Memory.quantity(all))
			// Huge pages are taken out of memory for good.
			for other, q := range capacity {
				if isHugePages(other) {
					left.Sub(q)
				}
			}
		case v1.ResourceEphemeralStorage:
			left.Sub(s.Limits.Disk.quantity(all))
		}
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, all.Format)
		}
		out[name] = left
	}
	return out
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// announced returns the capacity that a Node shows, with the extended resources that other programs
// announced. If another kubelet wrote the status, those were the devices of its plugins: they are
// zero, since devices are no longer allocated.
func announced(shown v1.NodeStatus) v1.ResourceList {
	if isOurs(shown.NodeInfo.KubeletVersion) {
		return shown.Capacity
	}
	out := v1.ResourceList{}
	for name, q := range shown.Capacity {
		if domain, _, extended := strings.Cut(string(name), "/"); extended && !strings.HasSuffix(domain, "kubernetes.io") {
			q = *resource.NewQuantity(0, q.Format)
		}
		out[name] = q
	}
	return out
}

// overlay merges the resources that other programs announced with ours, which win. Huge pages
// are always ours: a size that the kernel no longer offers is left out.
func overlay(others, ours v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range others {
		if !isHugePages(name) {
			out[name] = q
		}
	}
	for name, q := range ours {
		out[name] = q
	}
	return out
}
