package localapi

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// PullProgress adds the progress of pulls to the messages of containers that wait for an image.
type PullProgress struct {
	Pods
	// Progress describes how far the pull of an image is, or returns "".
	Progress func(image string) string
}

// List implements Pods.
func (p PullProgress) List() ([]*v1.Pod, []pod.Refusal) {
	pods, refused := p.Pods.List()
	p.addProgress(pods)
	return pods, refused
}

// Since implements Pods. Progress is no change of a pod: it comes with the next change.
func (p PullProgress) Since(version uint64) pod.Changes {
	changes := p.Pods.Since(version)
	p.addProgress(changes.Pods)
	return changes
}

func (p PullProgress) addProgress(pods []*v1.Pod) {
	for i := range pods {
		pods[i] = withProgress(pods[i], p.Progress)
	}
}

// withProgress returns the pod, or a copy whose waiting containers show the progress of their pulls.
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
