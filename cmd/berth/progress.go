package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/agent"
	"berth/internal/pod"
)

// podsWithProgress is the pods of the agent; those that wait for an image say how
// much of it is here. That is looked up when somebody reads, and costs nothing else.
type podsWithProgress struct {
	*agent.Agent
	store imageStore
}

// progressPatience is how long readers wait for it.
const progressPatience = time.Second

// List implements server.Pods.
func (p podsWithProgress) List() ([]*v1.Pod, []pod.Refusal) {
	pods, refused := p.Agent.List()
	if p.store.bundle == nil {
		return pods, refused
	}
	ctx, cancel := context.WithTimeout(context.Background(), progressPatience)
	defer cancel()
	known := map[string]string{}
	for i := range pods {
		pods[i] = withProgress(pods[i], func(image string) string {
			text, asked := known[image]
			if !asked {
				if got, ok := p.store.progress(ctx, image); ok {
					text = fmt.Sprintf("%s of %s", humanBytes(got.Done), humanBytes(got.Total))
				}
				known[image] = text
			}
			return text
		})
	}
	return pods, refused
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
