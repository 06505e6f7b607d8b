package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth/internal/lib/pod"
)

// Is this the node that the pod is meant for? A scheduler has asked the same
// before; but labels and taints change, and not every pod comes from a scheduler.

func checkNodeName(p *v1.Pod, node Node) *Rejection {
	if p.Spec.NodeName == "" || node.Name == "" || p.Spec.NodeName == node.Name {
		return nil
	}
	return predicateFailed(reasonNodeName, "node(s) didn't match the requested node name")
}

// checkAffinity checks the node selector and the required terms of the node affinity.
// One that can't be read matches no node.
func checkAffinity(p *v1.Pod, node Node) *Rejection {
	if node.Labels == nil {
		return nil
	}
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(object); err == nil && matches {
		return nil
	}
	return predicateFailed(reasonNodeAffinity, "node(s) didn't match Pod's node affinity/selector")
}

// checkTaints keeps away what would be evicted at once. Other effects are the
// scheduler's business. A static pod belongs to this node whatever its taints.
func checkTaints(p *v1.Pod, node Node) *Rejection {
	if pod.IsStatic(p) {
		return nil
	}
	noExecute := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	// Tolerations that compare numbers count: whether a cluster has them is for
	// its API server to say. It is the zero logger that says nothing.
	if _, found := corev1.FindMatchingUntoleratedTaint(klog.Logger{}, node.Taints, p.Spec.Tolerations, noExecute, true); !found {
		return nil
	}
	return predicateFailed(reasonTaintToleration, "node(s) had taints that the pod didn't tolerate")
}

// ByNode reports whether it is for what others put on the Node, and may change at any time:
// labels, taints, and resources that are not the machine's own.
func (r *Rejection) ByNode() bool {
	resource, short := strings.CutPrefix(r.Reason, reasonOutOf)
	return r.Reason == reasonNodeAffinity || r.Reason == reasonTaintToleration || short && strings.Contains(resource, "/")
}

// predicateFailed puts a reason into the form in which people search for it.
func predicateFailed(predicate, why string) *Rejection {
	return &Rejection{Reason: predicate, Message: fmt.Sprintf("Predicate %s failed: %s", predicate, why)}
}
