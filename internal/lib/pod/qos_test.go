package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		out := v1.ResourceList{}
		if cpu != "" {
			out[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	with := func(requests, limits v1.ResourceList) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	whole := with(list("1", "1Gi"), list("1", "1Gi"))
	for name, test := range map[string]struct {
		main, init []v1.ResourceRequirements
		pod        *v1.ResourceRequirements
		want       v1.PodQOSClass
	}{
		"no container":            {want: v1.PodQOSBestEffort},
		"nothing said":            {main: []v1.ResourceRequirements{{}}, want: v1.PodQOSBestEffort},
		"zero and less":           {main: []v1.ResourceRequirements{with(list("0", "-1"), nil)}, want: v1.PodQOSBestEffort},
		"another resource":        {main: []v1.ResourceRequirements{with(v1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}, nil)}, want: v1.PodQOSBestEffort},
		"a request":               {main: []v1.ResourceRequirements{with(list("1", ""), nil)}, want: v1.PodQOSBurstable},
		"requests for all":        {main: []v1.ResourceRequirements{with(list("1", "1Gi"), nil)}, want: v1.PodQOSBurstable},
		"a limit on one":          {main: []v1.ResourceRequirements{with(nil, list("1", ""))}, want: v1.PodQOSBurstable},
		"less than the limit":     {main: []v1.ResourceRequirements{with(list("1", "1Gi"), list("2", "1Gi"))}, want: v1.PodQOSBurstable},
		"zero, with a limit":      {main: []v1.ResourceRequirements{with(list("0", "1Gi"), list("1", "1Gi"))}, want: v1.PodQOSBurstable},
		"all of the limit":        {main: []v1.ResourceRequirements{whole}, want: v1.PodQOSGuaranteed},
		"written in another way":  {main: []v1.ResourceRequirements{with(list("1000m", "1024Mi"), list("1", "1Gi"))}, want: v1.PodQOSGuaranteed},
		"limits alone":            {main: []v1.ResourceRequirements{with(nil, list("1", "1Gi"))}, want: v1.PodQOSGuaranteed},
		"one of two":              {main: []v1.ResourceRequirements{whole, {}}, want: v1.PodQOSBurstable},
		"not the init container":  {main: []v1.ResourceRequirements{whole}, init: []v1.ResourceRequirements{{}}, want: v1.PodQOSBurstable},
		"the init container, too": {main: []v1.ResourceRequirements{whole}, init: []v1.ResourceRequirements{whole}, want: v1.PodQOSGuaranteed},
		"the pod as a whole":      {main: []v1.ResourceRequirements{{}}, pod: &whole, want: v1.PodQOSGuaranteed},
		"the pod goes first":      {main: []v1.ResourceRequirements{whole}, pod: new(with(list("1", ""), nil)), want: v1.PodQOSBurstable},
		"the pod says nothing":    {main: []v1.ResourceRequirements{whole}, pod: &v1.ResourceRequirements{}, want: v1.PodQOSGuaranteed},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1.Pod{Spec: v1.PodSpec{Resources: test.pod}}
			for _, r := range test.main {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Resources: r})
			}
			for _, r := range test.init {
				p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Resources: r})
			}
			if got := QOSClass(p); got != test.want {
				t.Errorf("got %s, wanted %s", got, test.want)
			}
		})
	}
}
