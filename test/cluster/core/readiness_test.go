//go:build real

package core

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/test/cluster/kit"
)

func TestAReadinessGateHoldsAPodBack(t *testing.T) {
	t.Parallel()
	const gate = "example.com/lit"
	_, admin := kit.SharedNamespace(t, "gates")
	pods := kit.PodsIn(t, admin, "gates")
	lamp := kit.WorkloadPod("lamp", "sleep")
	lamp.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	pods.MustCreate(lamp)

	// Its containers are ready, and it is not.
	held := pods.Await("lamp", "held back", func(p *corev1.Pod) bool {
		return p != nil && kit.PodCondition(p, corev1.ContainersReady) == corev1.ConditionTrue && kit.PodCondition(p, corev1.PodReady) != ""
	})
	if kit.IsReady(held) {
		t.Error("it is ready before its gate was opened")
	}

	turn := func(to corev1.ConditionStatus) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q}]}}`, gate, to)
		_, err := pods.Patch(t.Context(), "lamp", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		kit.Must(t, err)
	}
	turn(corev1.ConditionTrue)
	ready := pods.Await("lamp", "ready", kit.IsReady)
	if kit.PodCondition(ready, gate) != corev1.ConditionTrue {
		t.Error("the condition of others was overwritten")
	}
	turn(corev1.ConditionFalse)
	dark := pods.Await("lamp", "not ready", func(p *corev1.Pod) bool { return p != nil && !kit.IsReady(p) })
	kit.MustKeepInstance(t, dark, kit.InstanceOf(held))
	pods.MustRemove("lamp")
}
