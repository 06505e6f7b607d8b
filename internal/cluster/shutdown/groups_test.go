package shutdown

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/pod"
)

// newPod is a pod of an API server, with a grace of 30 seconds.
func newPod(name string, priority int32) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = name, "default", pod.UID("uid-"+name)
	p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceAPI}
	p.Spec.Priority = &priority
	p.Spec.TerminationGracePeriodSeconds = new(int64(30))
	return p
}

func static(p *v1.Pod) *v1.Pod {
	p.Annotations[pod.AnnotationSource] = pod.SourceFile
	return p
}

func withGrace(seconds int64, p *v1.Pod) *v1.Pod {
	p.Spec.TerminationGracePeriodSeconds = &seconds
	return p
}

func TestPeriods(t *testing.T) {
	type by []Period
	for name, test := range map[string]struct {
		total, critical time.Duration
		by              by
		want            string // the periods, or a part of the error
	}{
		"nothing":               {want: "[]"},
		"total and critical":    {total: 30 * time.Second, critical: 10 * time.Second, want: "[{0 20s} {2000000000 10s}]"},
		"all for the critical":  {total: 10 * time.Second, critical: 10 * time.Second, want: "[{0 0s} {2000000000 10s}]"},
		"nothing for them":      {total: 30 * time.Second, want: "[{0 30s} {2000000000 0s}]"},
		"by priority, in order": {by: by{{2e9, 10 * time.Second}, {-5, 60 * time.Second}, {1000, 0 * time.Second}}, want: "[{-5 1m0s} {1000 0s} {2000000000 10s}]"},
		"more critical than total": {
			total: 5 * time.Second, critical: 10 * time.Second, want: "shutdownGracePeriodCriticalPods is 10s, which is more than",
		},
		"critical alone":       {critical: 10 * time.Second, want: "which is more than shutdownGracePeriod, 0s"},
		"both ways":            {total: 5 * time.Second, by: by{{0, 1 * time.Second}}, want: "both set"},
		"less than a second":   {total: time.Millisecond, want: "at least 1s"},
		"below 0":              {total: -time.Second, want: "at least 1s"},
		"priority twice":       {by: by{{7, 1 * time.Second}, {7, 2 * time.Second}}, want: "priority 7 twice"},
		"fewer than 0 seconds": {by: by{{7, -1 * time.Second}}, want: "can't be below 0"},
	} {
		var by []kubeletconfig.ShutdownGracePeriodByPodPriority
		for _, p := range test.by {
			by = append(by, kubeletconfig.ShutdownGracePeriodByPodPriority{Priority: p.Priority, ShutdownGracePeriodSeconds: int64(p.For / time.Second)})
		}
		periods, err := Periods(test.total, test.critical, by)
		got := fmt.Sprint(periods)
		if err != nil {
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// picture shows groups, each as "priority: pod=grace".
func picture(groups []Group, most *int64) string {
	var lines []string
	for _, g := range groups {
		line := fmt.Sprintf("%d:", g.Priority)
		for _, p := range g.Pods {
			line += fmt.Sprintf(" %s=%d", p.Name, g.grace(p, most))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestPlan(t *testing.T) {
	classed := func(class string) *v1.Pod {
		p := static(newPod(class, 0))
		p.Spec.Priority, p.Spec.PriorityClassName = nil, class
		return p
	}
	deleted := newPod("deleted", 0)
	deleted.DeletionGracePeriodSeconds = new(int64(3))
	plain := []Period{{0, 20 * time.Second}, {2e9, 10 * time.Second}}
	many := []Period{{10, 40 * time.Second}, {1000, 5 * time.Second}, {2e9, 10 * time.Second}}
	for name, test := range map[string]struct {
		pods    []*v1.Pod
		periods []Period
		most    *int64
		want    string
	}{
		"none":                              {nil, plain, nil, ""},
		"the critical ones last":            {[]*v1.Pod{newPod("dns", 2e9), newPod("web", 0), newPod("app", 5)}, plain, nil, "0: app=20 web=20; 2000000000: dns=10"},
		"a shorter grace of its own":        {[]*v1.Pod{withGrace(7, newPod("web", 0))}, plain, nil, "0: web=7"},
		"one that is being deleted":         {[]*v1.Pod{deleted}, plain, nil, "0: deleted=3"},
		"a limit on the grace":              {[]*v1.Pod{newPod("web", 0), withGrace(1, newPod("app", 0))}, plain, new(int64(2)), "0: app=1 web=2"},
		"no grace at all":                   {[]*v1.Pod{newPod("web", 0)}, plain, new(int64(0)), "0: web=0"},
		"below the lowest":                  {[]*v1.Pod{newPod("web", -9), newPod("app", 9)}, many, nil, "10: app=30 web=30"},
		"between two: the lower":            {[]*v1.Pod{newPod("web", 999), newPod("app", 1000), newPod("db", 1001)}, many, nil, "10: web=30; 1000: app=5 db=5"},
		"above the highest":                 {[]*v1.Pod{newPod("web", 2_000_001_000)}, many, nil, "2000000000: web=10"},
		"a static pod without a priority":   {[]*v1.Pod{static(newPod("web", 0)), classed("")}, plain, nil, "0: =20 web=20"},
		"static pods that name their class": {[]*v1.Pod{classed("system-node-critical"), classed("system-cluster-critical"), classed("mine")}, plain, nil, "0: mine=20; 2000000000: system-cluster-critical=10 system-node-critical=10"},
		"a group that is waited for":        {[]*v1.Pod{newPod("web", 0)}, []Period{{0, forever}}, nil, "0: web=30"},
	} {
		if got := picture(Plan(test.pods, test.periods), test.most); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, test.want)
		}
	}
}
