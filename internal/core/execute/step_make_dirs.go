package execute

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/telemetry/event"
)

// makeDirs makes the directories that a pod's data and logs go to. The names of
// pods and containers were checked when the pod was taken in.
func makeDirs(e *Executor, _ context.Context, t *task) error {
	err := e.makePodDirs(t)
	if err != nil {
		e.Reports.Events.Record(t.pod, v1.EventTypeWarning, event.Failed, "error making pod data directories: "+err.Error())
	}
	return err
}

func (e *Executor) makePodDirs(t *task) error {
	for _, a := range t.plan.Actions {
		start, ok := a.(plan.StartContainer)
		if !ok {
			continue
		}
		if err := os.MkdirAll(e.podDir(t.pod.UID), 0o750); err != nil {
			return fmt.Errorf("make the pod's directory: %w", err)
		}
		logs := filepath.Join(e.Node.LogDir(t.pod.Namespace, t.pod.Name, t.pod.UID), start.Name)
		if err := os.MkdirAll(logs, 0o755); err != nil {
			return fmt.Errorf("make the log directory: %w", err)
		}
	}
	return nil
}
