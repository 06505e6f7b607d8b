package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestPressureKeepsNewPodsAway(t *testing.T) {
	plain := newPod("plain")
	promised := newPod("promised")
	promised.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}
	critical := newPod("critical")
	critical.Spec.Priority = new(int32(2_000_000_000))
	tolerates := func(key string) *v1.Pod {
		p := newPod("tolerant")
		p.Spec.Tolerations = []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}
		return p
	}
	everything := newPod("everything")
	everything.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	const memory, disk, pids = v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure
	type of = []v1.NodeConditionType
	for name, test := range map[string]struct {
		pod      *v1.Pod
		pressure of
		want     string // the message; empty: it is let in
	}{
		"none":                                   {plain, nil, ""},
		"of memory, promised nothing":            {plain, of{memory}, "The node had condition: [MemoryPressure]. "},
		"of memory, promised some":               {promised, of{memory}, ""},
		"of memory, and that is fine":            {tolerates(v1.TaintNodeMemoryPressure), of{memory}, ""},
		"of memory, and anything is fine":        {everything, of{memory}, ""},
		"of memory, and that of disks were fine": {tolerates(v1.TaintNodeDiskPressure), of{memory}, "The node had condition: [MemoryPressure]. "},
		"of the disk":                            {promised, of{disk}, "The node had condition: [DiskPressure]. "},
		"of the disk, and that is fine":          {tolerates(v1.TaintNodeDiskPressure), of{disk}, "The node had condition: [DiskPressure]. "},
		"of processes":                           {promised, of{pids}, "The node had condition: [PIDPressure]. "},
		"of all, promised some":                  {promised, of{memory, disk, pids}, "The node had condition: [MemoryPressure DiskPressure PIDPressure]. "},
		"of all, and critical":                   {critical, of{memory, disk, pids}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(test.pod, nil, Node{Pressure: test.pressure})
			if test.want == "" {
				if got != nil {
					t.Errorf("rejected: %+v", got)
				}
				return
			}
			if reason(got) != "Evicted" || got.Message != test.want {
				t.Errorf("got %+v, want %q", got, test.want)
			}
		})
	}
}
