package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
)

// recordingTelemetry records the calls that it gets as lines.
type recordingTelemetry struct {
	mu    sync.Mutex
	lines []string
}

func (n *recordingTelemetry) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *recordingTelemetry) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.lines
	n.lines = nil
	return out
}

func (n *recordingTelemetry) Step(ctx context.Context, _ *v1.Pod, _ string) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (n *recordingTelemetry) Rejected(string)  { n.add("rejected") }
func (n *recordingTelemetry) Starting(*v1.Pod) { n.add("starting") }

func (n *recordingTelemetry) Phase(_ *v1.Pod, phase, what string) func(error) {
	n.add("%s %s begins", phase, what)
	return func(err error) { n.add("%s %s ends %v", phase, what, err) }
}

func (n *recordingTelemetry) StartFailed(_ *v1.Pod, container, reason string) {
	n.add("%s: %s", container, reason)
}

func (n *recordingTelemetry) StatusChanged(_ *v1.Pod, s *v1.PodStatus) { n.add("shown %s", s.Phase) }
func (n *recordingTelemetry) Gone(uid pod.UID)                         { n.add("%s is gone", uid) }

func TestAWatcherSeesThePhasesOfAStart(t *testing.T) {
	onNode(t, 1, func(n *node) {
		seen := &recordingTelemetry{}
		n.Reports.Telemetry = seen
		p := web("1", "app")

		// Given a pod whose image is being pulled: the phase is begun, and does not end.
		n.images.set("app", &image.State{Reason: pod.ReasonContainerCreating, Message: "Pulling image"})
		if _, err := n.sync(p); err != nil {
			t.Fatal(err)
		}
		if got := seen.take(); !slices.Contains(got, "pull app begins") || slices.Contains(got, "pull app ends <nil>") {
			t.Errorf("while it is pulled: %q", got)
		}

		// When it is there, the rest follows in order.
		n.images.set("app", nil)
		n.settle(p)
		got := slices.DeleteFunc(seen.take(), func(line string) bool { return line == "starting" })
		want := []string{
			"volumes  begins", "volumes  ends <nil>", "pull app begins", "pull app ends <nil>", "queue  begins", "queue  ends <nil>",
			"create app begins", "create app ends <nil>", "start app begins", "start app ends <nil>",
		}
		from := slices.Index(got, "pull app begins") - 2
		if from < 0 || len(got) < from+len(want) || !slices.Equal(got[from:from+len(want)], want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if !slices.Contains(got, "shown Running") {
			t.Errorf("its status was not shown: %q", got)
		}
	})
}

func TestAWatcherSeesWhatFails(t *testing.T) {
	onNode(t, 1, func(n *node) {
		seen := &recordingTelemetry{}
		n.Reports.Telemetry = seen
		p := web("1", "app")
		n.runtime.Fail("CreateContainer", errors.New("disk full"))

		_, _ = n.sync(p)

		if got := seen.take(); !slices.Contains(got, "create app ends disk full") || !slices.Contains(got, "app: "+pod.ReasonCreateContainerError) {
			t.Errorf("got %q", got)
		}
	})
}
