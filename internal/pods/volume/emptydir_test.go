package volume

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
)

func emptyDir(medium v1.StorageMedium, size string) v1.VolumeSource {
	e := &v1.EmptyDirVolumeSource{Medium: medium}
	if size != "" {
		e.SizeLimit = new(resource.MustParse(size))
	}
	return v1.VolumeSource{EmptyDir: e}
}

func TestEmptyDir(t *testing.T) {
	w := newWorld(t)
	p := withGroup(podWith(emptyDir("", "")), someGroup())
	w.setup(p)
	dir := w.dir(p)
	if m := mode(t, dir); m != os.ModeDir|os.ModeSetgid|0o777 {
		t.Error(m)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, gid := owner(info); gid != int(someGroup()) {
		t.Error(gid)
	}

	// What a container does to it is left alone.
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.setup(p)
	w.must(dir, map[string]string{"data": "mine"})
	if m := mode(t, dir).Perm(); m != 0o700 {
		t.Error(m)
	}
}

func TestMemoryIsLimitedByTheSmallestLimit(t *testing.T) {
	limits := func(list ...string) *v1.Pod {
		p := podWith(emptyDir(v1.StorageMediumMemory, ""))
		p.Spec.Containers = nil
		for _, l := range list {
			c := v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "vol"}}}
			if l != "" {
				c.Resources.Limits = v1.ResourceList{"memory": resource.MustParse(l)}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		return p
	}
	for _, c := range []struct {
		pod         *v1.Pod
		size, total string
		want        int64
	}{
		{limits(""), "", "8Gi", 8 << 30},
		{limits(""), "64Mi", "8Gi", 64 << 20},
		{limits("1Gi"), "", "8Gi", 1 << 30},
		{limits("1Gi", "1Gi"), "", "8Gi", 2 << 30},
		{limits("1Gi", ""), "", "8Gi", 8 << 30},
		{limits("1Gi"), "4Gi", "8Gi", 1 << 30},
		{limits(""), "", "0", 0},
		{limits(""), "0", "8Gi", 8 << 30},
		{limits("1Gi"), "1Mi", "0", 1 << 20},
	} {
		var size *resource.Quantity
		if c.size != "" {
			size = new(resource.MustParse(c.size))
		}
		if got := memorySize(c.pod, size, v1.ResourceList{"memory": resource.MustParse(c.total)}); got != c.want {
			t.Errorf("%v %s %s: %d, want %d", c.pod.Spec.Containers, c.size, c.total, got, c.want)
		}
	}
}

func TestEmptyDirInMemory(t *testing.T) {
	w := newWorld(t)
	p := withGroup(podWith(emptyDir(v1.StorageMediumMemory, "64Mi")), 5)
	w.setup(p)
	w.setup(p)
	if want := "tmpfs vol mode=3777,gid=5,size=67108864"; len(w.mounter.done) != 1 || w.mounter.done[0] != want {
		t.Errorf("%q, want %q once", w.mounter.done, want)
	}
}

func TestEmptyDirOfHugePages(t *testing.T) {
	pages := func(p *v1.Pod, names ...v1.ResourceName) *v1.Pod {
		list := v1.ResourceList{}
		for _, n := range names {
			list[n] = resource.MustParse("4Mi")
		}
		p.Spec.Containers[0].Resources.Limits = list
		return p
	}
	for _, c := range []struct {
		pod  *v1.Pod
		want string
	}{
		{pages(podWith(emptyDir("HugePages", "")), "hugepages-2Mi"), "hugetlbfs vol mode=0777,pagesize=2097152"},
		{pages(podWith(emptyDir("HugePages-1Gi", "")), "hugepages-2Mi", "hugepages-1Gi"), "hugetlbfs vol mode=0777,pagesize=1073741824"},
		{pages(podWith(emptyDir("HugePages", "")), "hugepages-2Mi", "hugepages-1Gi"), "several sizes"},
		{pages(podWith(emptyDir("HugePages", ""))), "no container asks for such pages"},
		{pages(podWith(emptyDir("HugePages-1Gi", "")), "hugepages-2Mi"), "no container asks for such pages"},
		{pages(podWith(emptyDir("HugePages-big", "")), "hugepages-big"), `"big" is not the size of a page`},
	} {
		w := newWorld(t)
		if strings.HasPrefix(c.want, "hugetlbfs") {
			w.setup(c.pod)
			if len(w.mounter.done) != 1 || w.mounter.done[0] != c.want {
				t.Errorf("%q, want %q", w.mounter.done, c.want)
			}
			continue
		}
		w.setupFails(c.pod, c.want)
	}
}

func TestBadEmptyDirs(t *testing.T) {
	w := newWorld(t)
	w.setupFails(podWith(emptyDir("Tape", "")), `medium "Tape" is not known`)
	w.setupFails(podWith(emptyDir(v1.StorageMediumMemory, "-1")), "is negative")
}

func TestMemoryThatMayGoToADiskIsLoggedOnce(t *testing.T) {
	for _, swaps := range []bool{false, true} {
		var log strings.Builder
		w := newWorld(t)
		w.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.restart()
		w.mounter.swaps = swaps
		for _, uid := range []pod.UID{"u-1", "u-2"} {
			p := podWith(emptyDir(v1.StorageMediumMemory, ""))
			p.UID = uid
			w.setup(p)
		}
		if warnings := strings.Count(log.String(), "secrets may be written to a disk"); warnings > 1 || (warnings == 1) != swaps {
			t.Errorf("swaps: %t, log:\n%s", swaps, log.String())
		}
	}
}
