//go:build real

package real

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodCostsWhatItsClassSays(t *testing.T) {
	t.Parallel()
	// given a class of pods with an overhead, and a pod that says nothing of it
	n := newNode(t)
	class := &nodev1.RuntimeClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"}, ObjectMeta: metav1.ObjectMeta{Name: "heavy"},
		Handler: "runc", Overhead: &nodev1.Overhead{PodFixed: amounts("memory", "100Mi")},
	}
	p := newPod("web", "serve", ":7070")
	p.Spec.RuntimeClassName = new("heavy")
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: amounts("cpu", "500m", "memory", "50Mi"), Requests: amounts("cpu", "500m", "memory", "50Mi")}
	n.save("web.yaml", p, class)
	n.start()
	web := n.waitRunning("web")["web"]

	// then its cgroup has room for both, and its container for what it may have
	controller, file := "memory", "memory.limit_in_bytes"
	if cgroupsV2() {
		controller, file = "", "memory.max"
	}
	uid := "pod" + string(web.UID)
	if got := n.inCgroup(controller, uid, file); got != "157286400" {
		t.Errorf("the pod may have %s", got)
	}
	if got := n.inCgroup(controller, uid+"/"+idsOf(web), file); got != "52428800" {
		t.Errorf("its container may have %s", got)
	}
	if got := web.Spec.Overhead[v1.ResourceMemory]; got.String() != "100Mi" {
		t.Errorf("the pod shows an overhead of %s", got.String())
	}

	// and the manifest is no other one for that
	if got := n.berth("diff", "-f", n.manifests); got.code != 0 || got.out != "" {
		t.Errorf("the manifest is as it was, and berth diff says %s", got)
	}
}
