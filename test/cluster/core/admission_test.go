//go:build real

package core

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
)

// asking has a pod ask for processor time.
func asking(p *corev1.Pod, cpu string) *corev1.Pod {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return p
}

// A scheduler would not bind these pods. For a pod that is bound by hand, the node reports the
// reason.
func TestTheNodeRefusesWhatItCanNotRun(t *testing.T) {
	t.Parallel()
	_, admin := kit.SharedNamespace(t, "refused")
	pods := kit.PodsIn(t, admin, "refused")
	elsewhere := kit.OnNode(kit.WorkloadPod("elsewhere", "sleep"), "one")
	elsewhere.Spec.NodeSelector = map[string]string{"disk": "fast"}
	unsafe := kit.OnNode(kit.WorkloadPod("unsafe", "sleep"), "one")
	unsafe.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "65536"}}}
	safe := kit.OnNode(kit.WorkloadPod("safe", "sleep"), "one")
	safe.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "0"}}}
	pods.MustCreate(elsewhere, unsafe, safe, asking(kit.OnNode(kit.WorkloadPod("huge", "sleep"), "one"), "1000"))

	for name, want := range map[string][2]string{
		"elsewhere": {"NodeAffinity", "node affinity/selector"},
		"unsafe":    {"SysctlForbidden", "kernel.msgmax"},
		"huge":      {"OutOfcpu", "requested: 1000000"},
	} {
		p := pods.Await(name, "refused", kit.HasPhase(corev1.PodFailed))
		if p.Status.Reason != want[0] || !strings.Contains(p.Status.Message, want[1]) {
			t.Errorf("%s was refused as %s: %s", name, p.Status.Reason, p.Status.Message)
		}
		pods.MustRemove(name)
	}
	pods.Await("safe", "ready", kit.IsReady)
	pods.MustRemove("safe")
}

// Not parallel: it takes the processors of a node.
func TestACriticalPodGetsItsRoom(t *testing.T) {
	_, admin := kit.SharedNamespace(t, "room")
	pods := kit.PodsIn(t, admin, "room")
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", kit.GetOptions)
	kit.Must(t, err)
	most := node.Status.Allocatable.Cpu().String()
	pods.MustCreate(asking(kit.OnNode(kit.WorkloadPod("lowly", "sleep"), "two"), most))
	pods.Await("lowly", "ready", kit.IsReady)
	pods.MustCreate(asking(kit.OnNode(kit.WorkloadPod("late", "sleep"), "two"), "100m"))
	if p := pods.Await("late", "refused", kit.HasPhase(corev1.PodFailed)); p.Status.Reason != "OutOfcpu" {
		t.Errorf("late was refused as %s", p.Status.Reason)
	}

	critical := asking(kit.OnNode(kit.WorkloadPod("critical", "sleep"), "two"), "100m")
	critical.Spec.PriorityClassName = "system-node-critical"
	pods.MustCreate(critical)
	pods.Await("critical", "ready", kit.IsReady)
	ended := pods.Await("lowly", "ended", kit.HasPhase(corev1.PodFailed))
	if ended.Status.Reason != "Preempting" || kit.PodCondition(ended, corev1.DisruptionTarget) != corev1.ConditionTrue {
		t.Errorf("lowly ended as %s with %+v", ended.Status.Reason, ended.Status.Conditions)
	}
	pods.MustRemove("lowly", "late", "critical")
}

// The scheduler binds a pod as soon as the one before it has ended. Not parallel: it
// takes the processors of a node.
func TestAJobOfPodsThatFillTheNodeLosesNone(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "full")
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", kit.GetOptions)
	kit.Must(t, err)
	kit.Kubectl(t, l, "cordon", "one")
	defer kit.Kubectl(t, l, "uncordon", "one")

	p := asking(kit.WithoutRestart(kit.WorkloadPod("", "exit", "0", "after", "300ms")), node.Status.Allocatable.Cpu().String())
	_, err = admin.BatchV1().Jobs("full").Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "fills"},
		Spec: batchv1.JobSpec{
			Completions: new(int32(6)), Parallelism: new(int32(2)), BackoffLimit: new(int32(20)),
			Template: corev1.PodTemplateSpec{Spec: p.Spec},
		},
	}, kit.CreateOptions)
	kit.Must(t, err)

	kit.Kubectl(t, l, "-n", "full", "wait", "job/fills", "--for=condition=Complete", "--timeout=90s")
	for _, p := range kit.MustHavePods(t, admin, "full", 6) {
		if p.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%s is %s: %s %s", p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
	}
	kit.Kubectl(t, l, "-n", "full", "delete", "job", "fills")
}

// Not parallel: it takes the processors of a node, and its agent.
func TestAPodThatHasEndedTakesNoRoomAfterARestartOfTheAgent(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "ended")
	pods := kit.PodsIn(t, admin, "ended")
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", kit.GetOptions)
	kit.Must(t, err)
	// Given many pods that have ended, each of which had the whole machine.
	var done []string
	for _, name := range []string{"done-1", "done-2", "done-3", "done-4", "done-5"} {
		done = append(done, name)
		pods.MustCreate(asking(kit.OnNode(kit.WithoutRestart(kit.WorkloadPod(name, "exit", "0")), "two"), node.Status.Allocatable.Cpu().String()))
		pods.Await(name, "done", kit.HasPhase(corev1.PodSucceeded))
	}

	// When the agent comes back, and finds a new one beside them.
	two := l.Nodes()[1]
	kit.Must(t, two.Stop())
	pods.MustCreate(asking(kit.OnNode(kit.WorkloadPod("fresh", "sleep"), "two"), "500m"))
	kit.Must(t, two.Start())

	pods.Await("fresh", "ready", kit.IsReady)
	pods.MustRemove(append(done, "fresh")...)
}
