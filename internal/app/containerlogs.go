package app

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"berth/internal/lib/pod"
)

// containerLogs finds the logs of containers for the servers.
type containerLogs struct{ endings }

// LogPath returns the file that a container logs to, and a channel that is
// closed once the container has ended.
func (l containerLogs) LogPath(ctx context.Context, uid pod.UID, containerID string) (string, <-chan struct{}, error) {
	have, err := forUser(ctx, func(ctx context.Context) (pod.Observed, error) { return l.observer.Get(ctx, uid, time.Time{}) })
	if err != nil {
		return "", nil, err
	}
	c := containerOf(have, containerID)
	if c == nil {
		return "", nil, fmt.Errorf("container %s: %w", containerID, fs.ErrNotExist)
	}
	return c.LogPath, l.ofContainer(ctx, uid, containerID), nil
}
