package execute

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"berth/internal/plan"
	"berth/internal/pod"
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

func (e *Executor) podDir(uid pod.UID) string { return filepath.Join(e.PodsDir, string(uid)) }

// removeDirs removes what makeDirs made, with all that is in it. A directory in
// which something is mounted stays: behind a mount is somebody's data.
func (e *Executor) removeDirs(p *v1.Pod) error {
	for _, dir := range []string{e.podDir(p.UID), e.Node.LogDir(p.Namespace, p.Name, p.UID)} {
		at, err := e.Mounted(dir)
		if err != nil {
			return err
		}
		if at != "" {
			return fmt.Errorf("%s can't be removed while %s is mounted", dir, at)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what the pod left: %w", err)
		}
	}
	return nil
}
