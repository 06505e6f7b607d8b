//go:build real

package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// asking has a pod ask for processor time.
func asking(p *corev1.Pod, cpu string) *corev1.Pod {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return p
}

// A scheduler would not bind these. Whoever does it by hand is told by the node.
func TestTheNodeRefusesWhatItCanNotRun(t *testing.T) {
	t.Parallel()
	_, admin := sharedNamespace(t, "refused")
	pods := podsIn(t, admin, "refused")
	elsewhere := onNode(workloadPod("elsewhere", "sleep"), "one")
	elsewhere.Spec.NodeSelector = map[string]string{"disk": "fast"}
	unsafe := onNode(workloadPod("unsafe", "sleep"), "one")
	unsafe.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "65536"}}}
	safe := onNode(workloadPod("safe", "sleep"), "one")
	safe.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "0"}}}
	pods.create(elsewhere, unsafe, safe, asking(onNode(workloadPod("huge", "sleep"), "one"), "1000"))

	for name, want := range map[string][2]string{
		"elsewhere": {"NodeAffinity", "node affinity/selector"},
		"unsafe":    {"SysctlForbidden", "kernel.msgmax"},
		"huge":      {"OutOfcpu", "requested: 1000000"},
	} {
		p := pods.await(name, "refused", hasPhase(corev1.PodFailed))
		if p.Status.Reason != want[0] || !strings.Contains(p.Status.Message, want[1]) {
			t.Errorf("%s was refused as %s: %s", name, p.Status.Reason, p.Status.Message)
		}
		pods.remove(name)
	}
	pods.await("safe", "ready", isReady)
	pods.remove("safe")
}

// Not parallel: it takes the processors of a node.
func TestACriticalPodGetsItsRoom(t *testing.T) {
	_, admin := sharedNamespace(t, "room")
	pods := podsIn(t, admin, "room")
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", get)
	must(t, err)
	most := node.Status.Allocatable.Cpu().String()
	pods.create(asking(onNode(workloadPod("lowly", "sleep"), "two"), most))
	pods.await("lowly", "ready", isReady)
	pods.create(asking(onNode(workloadPod("late", "sleep"), "two"), "100m"))
	if p := pods.await("late", "refused", hasPhase(corev1.PodFailed)); p.Status.Reason != "OutOfcpu" {
		t.Errorf("late was refused as %s", p.Status.Reason)
	}

	critical := asking(onNode(workloadPod("critical", "sleep"), "two"), "100m")
	critical.Spec.PriorityClassName = "system-node-critical"
	pods.create(critical)
	pods.await("critical", "ready", isReady)
	ended := pods.await("lowly", "ended", hasPhase(corev1.PodFailed))
	if ended.Status.Reason != "Preempting" || condition(ended, corev1.DisruptionTarget) != corev1.ConditionTrue {
		t.Errorf("lowly ended as %s with %+v", ended.Status.Reason, ended.Status.Conditions)
	}
	pods.remove("lowly", "late", "critical")
}
