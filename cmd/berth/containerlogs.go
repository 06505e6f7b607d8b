package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"berth/internal/observe"
	"berth/internal/pod"
	"berth/internal/run"
	"berth/internal/status"
)

// containerLogs finds the logs of containers for the server.
type containerLogs struct {
	observer *observe.Observer
	statuses *status.Store
	log      *slog.Logger
}

// LogPath returns the file that a container logs to, and a channel that is
// closed once the container has ended.
func (l containerLogs) LogPath(ctx context.Context, uid pod.UID, containerID string) (string, <-chan struct{}, error) {
	have, err := l.observer.Fresh(ctx, uid, time.Time{})
	if err != nil {
		return "", nil, err
	}
	for _, c := range have.Containers {
		if c.ID != containerID {
			continue
		}
		done := make(chan struct{})
		if c.State != pod.ContainerRunning {
			close(done)
		} else {
			run.NewGroup(ctx, l.log).Go("wait for the end of container "+containerID, func(ctx context.Context) {
				defer close(done)
				l.waitForEnd(ctx, uid, containerID)
			})
		}
		return c.LogPath, done, nil
	}
	return "", nil, fmt.Errorf("container %s: %w", containerID, fs.ErrNotExist)
}

// waitForEnd returns when no status says any more that the container runs, or
// nobody is interested.
func (l containerLogs) waitForEnd(ctx context.Context, uid pod.UID, containerID string) {
	changed, stop := l.statuses.Watch()
	defer stop()
	for {
		running := false
		s, _ := l.statuses.Get(uid)
		for _, c := range s.ContainerStatuses {
			running = running || (c.State.Running != nil && strings.HasSuffix(c.ContainerID, containerID))
		}
		if !running {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
