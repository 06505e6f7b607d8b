package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"berth/internal/lib/volumekind"
)

func setupEmptyDir(_ context.Context, j *job, v *v1.Volume) (place, error) {
	source := v.EmptyDir
	if source.SizeLimit != nil && source.SizeLimit.Sign() < 0 {
		return place{}, fmt.Errorf("sizeLimit %s is negative", source.SizeLimit)
	}
	var dir string
	var err error
	switch medium := source.Medium; {
	case medium == v1.StorageMediumDefault:
		dir, err = j.makeDir(volumekind.EmptyDir, v.Name)
	case medium == v1.StorageMediumMemory:
		options := ""
		if size := memorySize(j.pod, source.SizeLimit, j.m.cfg.Allocatable()); size > 0 {
			options = fmt.Sprintf("size=%d", size)
		}
		dir, err = j.makeMemoryDir(volumekind.EmptyDir, v.Name, "tmpfs", options)
	case medium == v1.StorageMediumHugePages || strings.HasPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)):
		var page int64
		if page, err = pageSize(j.pod, medium); err == nil {
			dir, err = j.makeMemoryDir(volumekind.EmptyDir, v.Name, "hugetlbfs", fmt.Sprintf("pagesize=%d", page))
		}
	default:
		err = fmt.Errorf("medium %q is not known: leave it out, or set Memory or HugePages", medium)
	}
	if err != nil {
		return place{}, err
	}
	return place{path: dir, dir: dir, relabel: true}, nil
}

// emptyDirIdentity returns the medium. An edited sizeLimit does not make another volume.
func emptyDirIdentity(s *v1.VolumeSource) string { return "emptyDir " + string(s.EmptyDir.Medium) }

// isOnDisk reports whether a volume is a directory, and no mount.
func isOnDisk(s *v1.VolumeSource) bool { return s.EmptyDir.Medium == v1.StorageMediumDefault }

// memorySize returns the size limit of a volume in memory: its own, but at most the memory limit of
// the pod or what the node can allocate. 0: unknown.
func memorySize(p *v1.Pod, limit *resource.Quantity, allocatable v1.ResourceList) int64 {
	size := allocatable.Memory().Value()
	lower := func(n int64) {
		if n > 0 && (size == 0 || n < size) {
			size = n
		}
	}
	if limitsMemory(p) {
		limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
		lower(limits.Memory().Value())
	}
	if limit != nil {
		lower(limit.Value())
	}
	return size
}

// limitsMemory reports whether the memory of the whole pod is limited: by its own limit, or by one on
// each container.
func limitsMemory(p *v1.Pod) bool {
	if p.Spec.Resources != nil && !p.Spec.Resources.Limits.Memory().IsZero() {
		return true
	}
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Resources.Limits.Memory().IsZero() {
			return false
		}
	}
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Resources.Limits.Memory().IsZero() {
			return false
		}
	}
	return true
}

// pageSize returns the size in bytes of the huge pages of a medium. The pod must request pages of that
// size.
func pageSize(p *v1.Pod, medium v1.StorageMedium) (int64, error) {
	asked := map[string]bool{}
	note := func(list v1.ResourceList) {
		for name := range list {
			if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
				asked[size] = true
			}
		}
	}
	for i := range p.Spec.InitContainers {
		note(p.Spec.InitContainers[i].Resources.Requests)
		note(p.Spec.InitContainers[i].Resources.Limits)
	}
	for i := range p.Spec.Containers {
		note(p.Spec.Containers[i].Resources.Requests)
		note(p.Spec.Containers[i].Resources.Limits)
	}
	if p.Spec.Resources != nil {
		note(p.Spec.Resources.Requests)
		note(p.Spec.Resources.Limits)
	}
	size := strings.TrimPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	if medium == v1.StorageMediumHugePages {
		if len(asked) > 1 {
			return 0, errors.New("medium HugePages: the pod asks for pages of several sizes: say which, as in HugePages-2Mi")
		}
		for only := range asked {
			size = only
		}
	}
	if !asked[size] {
		return 0, fmt.Errorf("medium %s: no container asks for such pages in its resources", medium)
	}
	q, err := resource.ParseQuantity(size)
	if err != nil || q.Value() <= 0 {
		return 0, fmt.Errorf("medium %s: %q is not the size of a page", medium, size)
	}
	return q.Value(), nil
}
