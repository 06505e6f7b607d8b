package execute

import (
	"context"

	"berth/internal/lib/pod"
)

// stopSandboxes stops every sandbox once, the dead ones too: until they are
// stopped they keep their address and their ports.
func (e *Executor) stopSandboxes(ctx context.Context, have pod.Observed, m *memory) error {
	for _, s := range have.Sandboxes {
		if m.sandboxes[s.ID] && s.State == pod.SandboxNotReady {
			continue
		}
		if err := e.Runtime.StopSandbox(ctx, s.ID); err != nil {
			return err
		}
		m.sandboxes[s.ID] = true
	}
	return nil
}
