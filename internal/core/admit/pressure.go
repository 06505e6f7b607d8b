package admit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"berth/internal/lib/pod"
)

// checkPressure rejects pods while the node has a pressure condition. Critical pods are admitted:
// the node may need them to recover. If only memory is short, so are pods that are not
// BestEffort and pods that tolerate the memory pressure taint.
func checkPressure(p *v1.Pod, node Node) *Rejection {
	if len(node.Pressure) == 0 || pod.IsCritical(p) {
		return nil
	}
	if slices.Equal(node.Pressure, []v1.NodeConditionType{v1.NodeMemoryPressure}) {
		taint := &v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
		if pod.QOSClass(p) != v1.PodQOSBestEffort || corev1.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, taint, true) {
			return nil
		}
	}
	return &Rejection{Reason: reasonEvicted, Message: fmt.Sprintf("The node had condition: %v. ", node.Pressure)}
}
