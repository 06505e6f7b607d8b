package execute

import "context"

// stopUnwanted stops the sandboxes and containers that the plan wants gone
// before anything is started.
func stopUnwanted(e *Executor, ctx context.Context, t *task) error { return e.carryOutStops(ctx, t) }
