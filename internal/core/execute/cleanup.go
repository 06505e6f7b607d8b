package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Cleanup removes all that is left of a pod: containers, sandboxes, cgroup,
// directories, links. After that, nobody knows of it.
func (e *Executor) Cleanup(ctx context.Context, p *v1.Pod, have pod.Observed) error {
	m := e.memories.of(p.UID)
	e.showStop(p, have, m, "removing what is left")
	for _, c := range have.Containers {
		if err := e.Runtime.RemoveContainer(ctx, c.ID); err != nil {
			return err
		}
		if err := e.unlinkLog(p, c.Name, c.ID); err != nil {
			return err
		}
	}
	if err := e.stopSandboxes(ctx, have, m); err != nil {
		return err
	}
	for _, s := range have.Sandboxes {
		if err := e.Runtime.RemoveSandbox(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := e.unmountVolumes(ctx, p, have, m); err != nil {
		return err
	}
	if err := e.removeCgroups(ctx, p.UID); err != nil {
		return err
	}
	if err := e.removeDirs(p); err != nil {
		return err
	}
	e.UserNamespaces.Release(p.UID)
	e.Log.Info("pod is gone", "pod", pod.Ref(p), "uid", p.UID)
	e.forgetLife(p.UID)
	return nil
}
