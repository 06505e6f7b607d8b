package observe

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// LogPath returns the file that a container logs to, for the request of a user, and a channel that is
// closed once the container has ended.
func (w ExitWatcher) LogPath(ctx context.Context, uid pod.UID, containerID string) (string, <-chan struct{}, error) {
	have, err := cri.WithUserTimeout(ctx, func(ctx context.Context) (pod.Observed, error) { return w.Pods.Get(ctx, uid, time.Time{}) })
	if err != nil {
		return "", nil, err
	}
	c := FindContainer(have, containerID)
	if c == nil {
		return "", nil, fmt.Errorf("container %s: %w", containerID, fs.ErrNotExist)
	}
	return c.LogPath, w.ContainerExited(ctx, uid, containerID), nil
}
