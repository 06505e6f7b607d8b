package execute

import (
	"context"

	"berth/internal/lib/pod"
)

// forgetPod gives back the user ids of a pod, whose directory is gone, and ends what is remembered of it.
func forgetPod(e *Executor, _ context.Context, t *task) error {
	e.Host.UserNamespaces.Release(t.pod.UID)
	e.Log.Info("pod is gone", "pod", pod.Ref(t.pod), "uid", t.pod.UID)
	e.forgetLife(t.pod.UID)
	return nil
}
