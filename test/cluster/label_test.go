//go:build real

package cluster

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/lab/control"
)

// Who labels a node, and then binds a pod to it for that label, counts on it. The node
// may have heard of the pod, and not yet of the label.
func TestAPodIsNotRefusedForALabelThatTheNodeHasNotHeardOf(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	way := newFaultyWay(t, plane, "one")
	pods := podsIn(t, clientOf(t, plane, control.Admin()), "default")
	pods.create(onNode(once(workloadPod("first", "exit", "0")), "one"))
	pods.await("first", "done", hasPhase(corev1.PodSucceeded))
	choosy := func(name string) *corev1.Pod {
		p := onNode(workloadPod(name, "sleep"), "one")
		p.Spec.NodeSelector = map[string]string{"disk": name}
		return p
	}

	// Given a node that can't watch itself.
	way.requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/nodes") {
			return false
		}
		status(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return true
	})
	way.requests.EndWatches(false)

	// When it is given a label, then a pod for that label runs, and one for another does not.
	kubectl(t, plane, "label", "node", "one", "disk=fast")
	pods.create(choosy("fast"), choosy("slow"))
	pods.await("fast", "ready", isReady)
	if p := pods.await("slow", "refused", hasPhase(corev1.PodFailed)); p.Status.Reason != "NodeAffinity" {
		t.Errorf("it was refused as %s: %s", p.Status.Reason, p.Status.Message)
	}

	// When nobody can tell it about itself, what it knows has to do.
	way.requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/nodes") {
			return false
		}
		status(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return true
	})
	pods.create(choosy("none"))
	pods.await("none", "refused", hasPhase(corev1.PodFailed))
	way.requests.Mend()
	pods.remove("first", "fast", "slow", "none")
}
