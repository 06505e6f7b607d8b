package status

import (
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// kind is in which list of the spec a container is.
type kind int

const (
	mainContainer kind = iota
	initContainer      // runs to its end before the main containers
	sidecar            // starts with the init containers and keeps running
	ephemeral          // added to a running pod for debugging
)

// container derives the status of one container of the spec from the two newest of its name in the
// runtime. Its place is the index among the containers of its kind.
func (v *view) container(c *v1.Container, is kind, place int) v1.ContainerStatus {
	out := v1.ContainerStatus{Name: c.Name, Image: c.Image}
	cur, last := newestTwo(v.Observed, c.Name)
	if cur != nil && cur.PreviousLife {
		cur = nil // the new life of the pod has not created it yet
	}
	out.VolumeMounts = mounts(c, cur)
	if is != ephemeral { // they have no started or ready state
		out.Started = new(false)
	}
	if cur == nil {
		return v.absent(out, is, place)
	}
	if last != nil && last.State == pod.ContainerExited {
		out.LastTerminationState.Terminated = v.terminated(last)
	}
	out.RestartCount = cur.RestartCount
	out.ContainerID = v.idPrefix + cur.ID
	out.ImageID = cur.ImageRef
	if cur.Image != "" && !isImageID(cur.Image) {
		out.Image = cur.Image // the spec may have another one by now
	}

	_, waits := v.Waiting[c.Name]
	ahead := (is == initContainer || is == sidecar) && place > v.reached
	switch {
	case cur.State == pod.ContainerRunning && cur.Starting:
		out.State.Waiting = v.waiting(c.Name)
	case cur.State == pod.ContainerRunning:
		out.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(cur.StartedAt)}
	case cur.State == pod.ContainerExited:
		if (waits || ahead || cur.ToRestart) && !v.ending {
			// It will be restarted: its end becomes the last state.
			out.State.Waiting = v.waiting(c.Name)
			out.LastTerminationState.Terminated = v.terminated(cur)
		} else {
			out.State.Terminated = v.terminated(cur)
		}
	case cur.State == pod.ContainerCreated:
		out.State.Waiting = v.waiting(c.Name)
	default:
		out.State.Terminated = lostContainer("The runtime can't tell what became of the container", out.ContainerID)
	}

	started := out.State.Running != nil && trueOrUnprobed(cur.Health.Started)
	switch is {
	case ephemeral:
	case initContainer:
		out.Started = &started
		out.Ready = out.State.Terminated != nil && out.State.Terminated.ExitCode == 0
	default:
		out.Started = &started
		out.Ready = started && trueOrUnprobed(cur.Health.Ready)
	}
	return out
}

// isImageID reports whether an image is given by the ID that the runtime has for it. That is all that some runtimes
// know of the image of a container.
func isImageID(image string) bool { return strings.HasPrefix(image, "sha256:") }

// mounts returns how the volumes of a container are mounted. Whether a mount is recursively
// read-only is what the runtime did for the created container, not what the spec asks for: "if
// possible" may have another result with another version of the runtime.
func mounts(c *v1.Container, made *pod.Container) []v1.VolumeMountStatus {
	var out []v1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		shown := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			shown.RecursiveReadOnly = new(v1.RecursiveReadOnlyDisabled)
			if made != nil && slices.Contains(made.ReadOnlyBelow, path.Join("/", m.MountPath)) {
				shown.RecursiveReadOnly = new(v1.RecursiveReadOnlyEnabled)
			}
		}
		out = append(out, shown)
	}
	return out
}

// absent completes the status of a container that the runtime does not have:
// it was not created yet, or it was removed after its end.
func (v *view) absent(out v1.ContainerStatus, is kind, place int) v1.ContainerStatus {
	behind := is == initContainer && place < v.reached // so it succeeded
	before := v.statusBefore(out.Name)
	ended := before != nil && before.State.Terminated != nil
	switch {
	case ended && (before.Ready || !behind) && (behind || v.ending):
		return *before
	case behind:
		out.State.Terminated = &v1.ContainerStateTerminated{Reason: pod.ReasonCompleted}
		out.Ready = true
	case v.ending && before != nil && before.State.Running != nil:
		out.RestartCount = before.RestartCount
		out.State.Terminated = lostContainer("The container was gone when the pod ended", before.ContainerID)
	default:
		out.State.Waiting = v.waiting(out.Name)
	}
	return out
}

func (v *view) statusBefore(container string) *v1.ContainerStatus {
	if v.Previous == nil {
		return nil
	}
	for _, list := range [][]v1.ContainerStatus{
		v.Previous.InitContainerStatuses, v.Previous.ContainerStatuses, v.Previous.EphemeralContainerStatuses,
	} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}

// trueOrUnprobed reads the result of a probe. Without a probe, a container
// is started as soon as it runs, and ready as soon as it is started.
func trueOrUnprobed(result *bool) bool { return result == nil || *result }

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

// waiting is the state of a container that does not run yet. Without another reason it is
// ContainerCreating, or PodInitializing in a pod with init containers.
func (v *view) waiting(name string) *v1.ContainerStateWaiting {
	n := v.Waiting[name]
	if n.Reason == "" || n.Reason == pod.ReasonContainerCreating {
		n.Reason = pod.ReasonContainerCreating
		if len(v.Pod.Spec.InitContainers) > 0 {
			n.Reason = pod.ReasonPodInitializing
		}
	}
	return &v1.ContainerStateWaiting{Reason: n.Reason, Message: n.Message}
}

func (v *view) terminated(c *pod.Container) *v1.ContainerStateTerminated {
	out := &v1.ContainerStateTerminated{
		ExitCode:    c.ExitCode,
		Reason:      c.Reason,
		Message:     c.Message,
		StartedAt:   metav1.NewTime(c.StartedAt),
		FinishedAt:  metav1.NewTime(c.FinishedAt),
		ContainerID: v.idPrefix + c.ID,
	}
	if out.Reason == "" {
		out.Reason = pod.ReasonCompleted
		if c.ExitCode != 0 {
			out.Reason = pod.ReasonError
		}
	}
	return out
}

// lostContainer is the state of a container that ended, with an exit code that is not known.
func lostContainer(message, id string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		ExitCode: 137, Reason: pod.ReasonContainerStatusUnknown, Message: message, ContainerID: id,
	}
}
