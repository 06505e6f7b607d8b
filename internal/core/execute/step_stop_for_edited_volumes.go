package execute

import "context"

// stopForEditedVolumes carries out the stops of the plan earlier than usual if a volume was edited:
// its setup replaces the volume, and a container that the edit ends may still use the old one.
func stopForEditedVolumes(e *Executor, ctx context.Context, t *task) error {
	if !e.Volumes.Edited(t.pod) {
		return nil
	}
	return e.carryOutStops(ctx, t)
}
