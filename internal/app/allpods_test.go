package app

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/config"
	"berth/internal/runtime/render"
)

func TestPodsDoNotGetWhatIsReserved(t *testing.T) {
	share := func(lend bool) render.Cgroup {
		c := &config.Config{RootDir: t.TempDir(), CgroupRoot: "/mine", LendReserved: lend, Reserved: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("64Mi"), "pid": resource.MustParse("100"),
		}}
		got, err := allPodsCgroup(c)()
		if err != nil || got.Name != "/mine" {
			t.Fatalf("got %+v, %v", got, err)
		}
		return got
	}
	all, left := share(true), share(false)
	if all.Shares-left.Shares != 512 || all.Memory-left.Memory != 64<<20 || all.Pids-left.Pids != 100 {
		t.Errorf("this machine has %+v, and for pods %+v", all, left)
	}
	if left.Quota != 0 {
		t.Errorf("a limit of processor time: %+v", left)
	}
}
