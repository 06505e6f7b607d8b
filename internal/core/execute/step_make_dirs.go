package execute

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/core/plan"
)

// makeDirs makes the directories that a pod's data and logs go to. The names of
// pods and containers were checked when the pod was taken in.
func makeDirs(e *Executor, _ context.Context, t *task) error {
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
