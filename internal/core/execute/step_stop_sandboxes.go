package execute

import (
	"context"

	"berth/internal/lib/pod"
)

// stopSandboxes stops every sandbox once, dead ones too: until it is
// stopped, a sandbox keeps its address and its ports.
func stopSandboxes(e *Executor, ctx context.Context, t *task) error {
	for _, s := range t.have.Sandboxes {
		if t.memory.stoppedSandboxes[s.ID] && s.State == pod.SandboxNotReady {
			continue
		}
		if err := e.Runtime.StopSandbox(ctx, s.ID); err != nil {
			return err
		}
		t.memory.stoppedSandboxes[s.ID] = true
	}
	return nil
}
