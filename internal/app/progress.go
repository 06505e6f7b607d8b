package app

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/agent"
	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
)

// podsWithProgress is the pods of the agent; those that wait for an image say how it
// comes along.
type podsWithProgress struct {
	*agent.Agent
	images *image.Manager
}

// List implements server.Pods.
func (p podsWithProgress) List() ([]*v1.Pod, []pod.Refusal) {
	pods, refused := p.Agent.List()
	p.addProgress(pods)
	return pods, refused
}

// Since implements server.Pods. How an image comes along is no change of a pod: it is
// told with the next one.
func (p podsWithProgress) Since(version uint64) pod.Changes {
	changes := p.Agent.Since(version)
	p.addProgress(changes.Pods)
	return changes
}

func (p podsWithProgress) addProgress(pods []*v1.Pod) {
	for i := range pods {
		pods[i] = withProgress(pods[i], func(image string) string { return p.images.Progress(image).String() })
	}
}

// withProgress is a pod with what progress knows of its images in the messages of
// the containers that wait for them.
func withProgress(p *v1.Pod, progress func(image string) string) *v1.Pod {
	shown := p
	lists := func(p *v1.Pod) []*[]v1.ContainerStatus {
		return []*[]v1.ContainerStatus{&p.Status.InitContainerStatuses, &p.Status.ContainerStatuses, &p.Status.EphemeralContainerStatuses}
	}
	for kind, list := range lists(p) {
		for i := range *list {
			c := &(*list)[i]
			if c.State.Waiting == nil || !strings.HasPrefix(c.State.Waiting.Message, "Pulling image") {
				continue
			}
			text := progress(c.Image)
			if text == "" {
				continue
			}
			if shown == p {
				shown = p.DeepCopy() // others read it, too
			}
			(*lists(shown)[kind])[i].State.Waiting.Message += ": " + text
		}
	}
	return shown
}
