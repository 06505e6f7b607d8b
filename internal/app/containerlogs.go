package app

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"berth/internal/core/observe"
	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
)

// containerLogs finds the log files of containers for the node API and the local API.
type containerLogs struct{ exits observe.ExitWatcher }

// LogPath returns the file that a container logs to, and a channel that is
// closed once the container has ended.
func (l containerLogs) LogPath(ctx context.Context, uid pod.UID, containerID string) (string, <-chan struct{}, error) {
	have, err := cri.WithUserTimeout(ctx, func(ctx context.Context) (pod.Observed, error) { return l.exits.Pods.Get(ctx, uid, time.Time{}) })
	if err != nil {
		return "", nil, err
	}
	c := observe.FindContainer(have, containerID)
	if c == nil {
		return "", nil, fmt.Errorf("container %s: %w", containerID, fs.ErrNotExist)
	}
	return c.LogPath, l.exits.ContainerExited(ctx, uid, containerID), nil
}
