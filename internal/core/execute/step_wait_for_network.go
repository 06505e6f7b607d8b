package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/telemetry/event"
)

// waitForNetwork fails until the runtime has a network, for a pod that needs a new sandbox and does
// not use the network of the machine.
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
