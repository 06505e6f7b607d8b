//go:build real

package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAReadinessGateHoldsAPodBack(t *testing.T) {
	t.Parallel()
	const gate = "example.com/lit"
	_, admin := sharedNamespace(t, "gates")
	pods := podsIn(t, admin, "gates")
	lamp := workloadPod("lamp", "sleep")
	lamp.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	pods.create(lamp)

	// Its containers are ready, and it is not.
	held := pods.await("lamp", "held back", func(p *corev1.Pod) bool {
		return p != nil && condition(p, corev1.ContainersReady) == corev1.ConditionTrue && condition(p, corev1.PodReady) != ""
	})
	if isReady(held) {
		t.Error("it is ready before its gate was opened")
	}

	turn := func(to corev1.ConditionStatus) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q}]}}`, gate, to)
		_, err := pods.Patch(t.Context(), "lamp", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		must(t, err)
	}
	turn(corev1.ConditionTrue)
	ready := pods.await("lamp", "ready", isReady)
	if condition(ready, gate) != corev1.ConditionTrue {
		t.Error("the condition of others was overwritten")
	}
	turn(corev1.ConditionFalse)
	dark := pods.await("lamp", "not ready", func(p *corev1.Pod) bool { return p != nil && !isReady(p) })
	mustBeSame(t, dark, lifeOf(held))
	pods.remove("lamp")
}
