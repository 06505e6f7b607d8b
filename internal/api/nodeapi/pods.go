package nodeapi

import (
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// servePods answers with the pods that this node is asked to run.
func (a *API) servePods(w http.ResponseWriter, _ *http.Request) error {
	pods, _ := a.Pods.List()
	list := newPodList()
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	return sendJSON(w, list)
}

// serveRunningPods answers with the running pods, as the runtime has them.
func (a *API) serveRunningPods(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Runtime.All(r.Context())
	if err != nil {
		return err
	}
	list := newPodList()
	for uid, seen := range all {
		if !seen.Running() {
			continue
		}
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: seen.Name, Namespace: seen.Namespace, UID: uid}}
		for _, c := range seen.Containers {
			if c.State == pod.ContainerRunning {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
			}
		}
		list.Items = append(list.Items, p)
	}
	slices.SortFunc(list.Items, func(x, y v1.Pod) int { return strings.Compare(pod.Ref(&x)+string(x.UID), pod.Ref(&y)+string(y.UID)) })
	return sendJSON(w, list)
}

func newPodList() *v1.PodList {
	return &v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
}

// findPod returns the pod that a path names. While a pod replaces another, both have the same
// name: the pod that was created last is meant.
func (a *API) findPod(r *http.Request) (*v1.Pod, error) {
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), pod.UID(r.PathValue("uid"))
	all, _ := a.Pods.List()
	var found *v1.Pod
	for _, p := range all {
		if p.Namespace != namespace || p.Name != name || (uid != "" && p.UID != uid) {
			continue
		}
		if found == nil || pod.Created(p).After(pod.Created(found)) {
			found = p
		}
	}
	if found == nil {
		return nil, problemf(http.StatusNotFound, "pod %q does not exist in namespace %q on node %q", name, namespace, a.Node)
	}
	return found, nil
}

// runningContainer returns the ID of the container that a path names. A container that does not run
// is an error.
func (a *API) runningContainer(r *http.Request) (string, error) {
	p, err := a.findPod(r)
	if err != nil {
		return "", err
	}
	name := r.PathValue("container")
	if pod.ContainerSpec(p, name) == nil {
		return "", problemf(http.StatusNotFound, "container not found (%q)", name)
	}
	have, err := a.Runtime.Observe(r.Context(), p.UID)
	if err != nil {
		return "", err
	}
	if c := have.Container(name); c != nil && c.State == pod.ContainerRunning {
		return c.ID, nil
	}
	return "", problemf(http.StatusNotFound, "container not found (%q): it does not run", name)
}
