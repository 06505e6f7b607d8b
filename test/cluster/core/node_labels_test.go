//go:build real

package core

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// Who labels a node, and then binds a pod to it for that label, counts on it. The node
// may have the pod, and not yet the label.
func TestAPodIsNotRefusedForALabelThatTheNodeHasNotHeardOf(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	way := kit.JoinThroughProxy(t, plane, "one")
	pods := kit.PodsIn(t, kit.Client(t, plane, control.Admin()), "default")
	pods.MustCreate(kit.OnNode(kit.WithoutRestart(kit.WorkloadPod("first", "exit", "0")), "one"))
	pods.Await("first", "done", kit.HasPhase(corev1.PodSucceeded))
	choosy := func(name string) *corev1.Pod {
		p := kit.OnNode(kit.WorkloadPod(name, "sleep"), "one")
		p.Spec.NodeSelector = map[string]string{"disk": name}
		return p
	}

	// Given a node that can't watch itself.
	way.Requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/nodes") {
			return false
		}
		kit.WriteStatus(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return true
	})
	way.Requests.EndWatches(false)

	// When it is given a label, then a pod for that label runs, and one for another does not.
	kit.Kubectl(t, plane, "label", "node", "one", "disk=fast")
	pods.MustCreate(choosy("fast"), choosy("slow"))
	pods.Await("fast", "ready", kit.IsReady)
	if p := pods.Await("slow", "refused", kit.HasPhase(corev1.PodFailed)); p.Status.Reason != "NodeAffinity" {
		t.Errorf("it was refused as %s: %s", p.Status.Reason, p.Status.Message)
	}

	// When the Node can't be read, the version at hand has to do.
	way.Requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/nodes") {
			return false
		}
		kit.WriteStatus(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return true
	})
	pods.MustCreate(choosy("none"))
	pods.Await("none", "refused", kit.HasPhase(corev1.PodFailed))
	way.Requests.Mend()
	pods.MustRemove("first", "fast", "slow", "none")
}
