package execute

import (
	"fmt"
	"strings"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
)

// The containers of a pod are started in the order of its spec, as users of the kubelet expect: the proxy of a
// service mesh is the first of its pod, and its postStart hook holds up the others until the proxy can be used.
// Images are pulled at the same time. A container that can't be started holds up no other one, and neither does
// an ephemeral container.

// postponeByImages takes those images out of images whose containers come after one of which the image is still
// being pulled. They are started by a later sync.
func (t *task) postponeByImages(images map[string]image.State) {
	first := "" // the container that the others wait for
	for _, a := range t.plan.Actions {
		start, ok := a.(plan.StartContainer)
		if !ok || pod.IsEphemeral(t.pod, start.Name) {
			continue
		}
		state := images[start.Name]
		switch {
		case first == "" && state.Ref == "" && state.Reason == pod.ReasonContainerCreating:
			first = start.Name
		case first != "" && state.Ref != "":
			delete(images, start.Name)
			t.setWaitingFor(start.Name, first)
		}
	}
}

// postponeAfter records that the containers after first wait for the end of its postStart hook.
func (t *task) postponeAfter(first string) {
	after := false
	for _, a := range t.plan.Actions {
		start, ok := a.(plan.StartContainer)
		if _, waits := t.memory.waiting[start.Name]; ok && after && !waits {
			t.setWaitingFor(start.Name, first)
		}
		after = after || ok && start.Name == first
	}
}

const startsBeforeIt = "starts before it"

// setWaitingFor records that a container waits for the start of another one.
func (t *task) setWaitingFor(container, first string) {
	t.setWaiting(container, pod.ReasonContainerCreating, fmt.Sprintf("container %s %s", first, startsBeforeIt))
}

// waitsForStart reports whether a container was last seen to wait for the start of another one.
func (t *task) waitsForStart(container string) bool {
	return strings.HasSuffix(t.memory.waiting[container].Message, startsBeforeIt)
}
