package cri

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Calls that change a running container, and do not end it.

// UpdateContainer changes the resources of a container. Resources that are zero stay as they
// are.
func (c *Client) UpdateContainer(ctx context.Context, id string, resources *runtimeapi.LinuxContainerResources) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, err := c.runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: resources})
	if err != nil {
		return fmt.Errorf("update the resources of container %s: %w", id, err)
	}
	return nil
}

// ReopenLog makes the runtime open a new log file, after the old one was renamed.
func (c *Client) ReopenLog(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, err := c.runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("reopen the log of container %s: %w", id, err)
	}
	return nil
}

// Checkpoint writes the state of a container to an archive at path. Without a
// timeout it may take minutes: memory is large.
func (c *Client) Checkpoint(ctx context.Context, id, path string, timeout time.Duration) error {
	limit := startTimeout
	if timeout > 0 {
		limit = timeout + c.timeout // the runtime is to be the first to give up
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := c.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: id, Location: path, Timeout: wholeSeconds(timeout),
	})
	if err != nil {
		return fmt.Errorf("checkpoint container %s to %s: %w", id, path, err)
	}
	return nil
}

// wholeSeconds rounds up, so that a timeout or grace period is never shortened.
func wholeSeconds(d time.Duration) int64 { return int64((max(d, 0) + time.Second - 1) / time.Second) }
