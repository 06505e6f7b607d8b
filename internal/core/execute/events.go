package execute

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
	"berth/internal/telemetry/event"
)

// recordImageEvent records an event if the state of a container's image has changed.
func (e *Executor) recordImageEvent(t *task, spec *v1.Container, state image.State) {
	before := t.memory.waiting[spec.Name]
	if state.Ref == "" && before.Reason == state.Reason && before.Message == state.Message {
		return
	}
	if state.Ref != "" && t.waitsForStart(spec.Name) {
		return // the sync that postponed the container recorded it
	}
	pulling := before.Reason == pod.ReasonContainerCreating && strings.HasPrefix(before.Message, "Pulling image")
	record := func(kind, reason, format string, args ...any) {
		e.Reports.Events.RecordContainer(t.pod, spec.Name, kind, reason, fmt.Sprintf(format, args...))
	}
	switch {
	case state.Ref != "" && pulling:
		record(v1.EventTypeNormal, event.Pulled, "Successfully pulled image %q", spec.Image)
	case state.Ref != "":
		record(v1.EventTypeNormal, event.Pulled, "Container image %q already present on machine", spec.Image)
	case state.Reason == pod.ReasonContainerCreating:
		if state.NoSecrets != "" {
			record(v1.EventTypeWarning, event.FailedToRetrieveImagePullSecret,
				"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", state.NoSecrets)
		}
		record(v1.EventTypeNormal, event.Pulling, "Pulling image %q", spec.Image)
	case state.Reason == pod.ReasonErrImagePull:
		record(v1.EventTypeWarning, event.Failed, "Failed to pull image %q: %s", spec.Image, state.Message)
	case state.Reason == pod.ReasonImagePullBackOff:
		record(v1.EventTypeNormal, event.BackOff, "Back-off pulling image %q", spec.Image)
	case state.Reason == pod.ReasonErrImageNeverPull:
		record(v1.EventTypeWarning, event.ErrImageNeverPull, "%s", state.Message)
	default:
		record(v1.EventTypeWarning, event.InspectFailed, "%s", state.Message)
	}
}

// recordBackOffs records an event for each container that waits because it keeps ending.
func (e *Executor) recordBackOffs(t *task) {
	for _, w := range t.plan.Waits {
		e.Reports.Events.RecordContainer(t.pod, w.Container, v1.EventTypeWarning, event.BackOff,
			fmt.Sprintf("Back-off restarting failed container %s in pod %s(%s)", w.Container, pod.FullName(t.pod), t.pod.UID))
	}
}

// recordHostFamily records an event if the first host IP of a pod is of another family than before: a cloud has chosen another
// one than the machine.
func (e *Executor) recordHostFamily(p *v1.Pod, before *v1.PodStatus, now string) {
	if before == nil || before.HostIP == "" || now == "" || isIPv6(before.HostIP) == isIPv6(now) {
		return
	}
	e.Reports.Events.Record(p, v1.EventTypeWarning, event.HostIPsIPFamilyMismatch,
		fmt.Sprintf("The host IP was %s, and the cloud has chosen %s, of the other family: set --node-ip", before.HostIP, now))
}

func isIPv6(ip string) bool { return strings.Contains(ip, ":") }
