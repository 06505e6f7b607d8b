package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/telemetry/event"
)

// waitForNetwork holds a pod back until the runtime has a network for it. Pods that
// are up already, or use the machine's network, do not care.
func waitForNetwork(e *Executor, ctx context.Context, t *task) error {
	if t.pod.Spec.HostNetwork {
		return nil
	}
	for _, a := range t.plan.Actions {
		if _, ok := a.(plan.CreateSandbox); ok {
			err := e.Runtime.Ready(ctx)
			if err != nil {
				t.setAllWaiting(e.RuntimeInfo.Explain(err))
				e.Reports.Events.Record(t.pod, v1.EventTypeWarning, event.NetworkNotReady, "network is not ready: "+e.RuntimeInfo.Explain(err))
			}
			return err
		}
	}
	return nil
}
