//go:build real

package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/real/kit"
)

func TestAPodCostsWhatItsClassSays(t *testing.T) {
	t.Parallel()
	// given a class of pods with an overhead, and a pod that says nothing of it
	n := kit.NewNode(t)
	class := &nodev1.RuntimeClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"}, ObjectMeta: metav1.ObjectMeta{Name: "heavy"},
		Handler: "runc", Overhead: &nodev1.Overhead{PodFixed: kit.ResourceList("memory", "100Mi")},
	}
	p := kit.NewPod("web", "serve", ":7070")
	p.Spec.RuntimeClassName = new("heavy")
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: kit.ResourceList("cpu", "500m", "memory", "50Mi"), Requests: kit.ResourceList("cpu", "500m", "memory", "50Mi")}
	n.ApplyObjects("web.yaml", p, class)
	n.Start()
	web := n.WaitRunning("web")["web"]

	// then its cgroup has room for both, and its container for what it may have
	controller, file := "memory", "memory.limit_in_bytes"
	if isCgroupV2() {
		controller, file = "", "memory.max"
	}
	uid := "pod" + string(web.UID)
	if got := n.ReadCgroup(controller, uid, file); got != "157286400" {
		t.Errorf("the pod may have %s", got)
	}
	if got := n.ReadCgroup(controller, uid+"/"+containerID(web), file); got != "52428800" {
		t.Errorf("its container may have %s", got)
	}
	if got := web.Spec.Overhead[v1.ResourceMemory]; got.String() != "100Mi" {
		t.Errorf("the pod shows an overhead of %s", got.String())
	}

	// and the manifest is no other one for that
	if got := n.Berth("diff", "-f", n.Manifests); got.Code != 0 || got.Out != "" {
		t.Errorf("the manifest is as it was, and berth diff says %s", got)
	}
}
