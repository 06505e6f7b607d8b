package status

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/pod"
)

// containerStatus describes one container of the spec by the newest of its name
// in the runtime and the one before it.
func containerStatus(in Input, c *v1.Container) v1.ContainerStatus {
	out := v1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(false)}
	cur, last := newestTwo(in.Have, c.Name)
	if last != nil && last.State == pod.ContainerExited {
		out.LastTerminationState.Terminated = terminated(last)
	}
	note, noted := in.Notes[c.Name]

	if cur == nil {
		if !noted {
			note = Note{Reason: pod.ReasonContainerCreating}
		}
		out.State.Waiting = waiting(note)
		return out
	}
	out.RestartCount = cur.RestartCount
	out.ContainerID = containerID(cur)
	out.ImageID = cur.ImageRef

	switch cur.State {
	case pod.ContainerRunning:
		out.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(cur.StartedAt)}
		out.Ready = true
		out.Started = new(true)
	case pod.ContainerExited:
		if noted && !in.Finished {
			// It will run again: its end becomes the last state.
			out.State.Waiting = waiting(note)
			out.LastTerminationState.Terminated = terminated(cur)
		} else {
			out.State.Terminated = terminated(cur)
		}
	case pod.ContainerCreated:
		if !noted {
			note = Note{Reason: pod.ReasonContainerCreating}
		}
		out.State.Waiting = waiting(note)
	default:
		out.State.Terminated = &v1.ContainerStateTerminated{
			ExitCode: 137, Reason: pod.ReasonContainerStatusUnknown,
			Message:     "The runtime can't tell what became of the container",
			ContainerID: containerID(cur),
		}
	}
	return out
}

func newestTwo(have pod.Observed, name string) (cur, last *pod.Container) {
	for i := range have.Containers {
		c := &have.Containers[i]
		if c.Name != name {
			continue
		}
		if cur != nil {
			return cur, c
		}
		cur = c
	}
	return cur, nil
}

func waiting(n Note) *v1.ContainerStateWaiting {
	return &v1.ContainerStateWaiting{Reason: n.Reason, Message: n.Message}
}

func terminated(c *pod.Container) *v1.ContainerStateTerminated {
	out := &v1.ContainerStateTerminated{
		ExitCode:    c.ExitCode,
		Reason:      c.Reason,
		Message:     c.Message,
		StartedAt:   metav1.NewTime(c.StartedAt),
		FinishedAt:  metav1.NewTime(c.FinishedAt),
		ContainerID: containerID(c),
	}
	if out.Reason == "" {
		out.Reason = pod.ReasonCompleted
		if c.ExitCode != 0 {
			out.Reason = pod.ReasonError
		}
	}
	return out
}

// containerID is written as users know it: the runtime's name, then the id. All
// runtimes that berth meets speak CRI, so the name is that of the one it ships.
func containerID(c *pod.Container) string { return "containerd://" + c.ID }
