package cri

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunSandbox creates and starts a sandbox and returns its ID. handler is the name of the
// runtime handler; empty for the default.
func (c *Client) RunSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	r, err := c.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	return r.PodSandboxId, nil
}

// StopSandbox stops a sandbox and its containers. A sandbox that does not exist is no error.
func (c *Client) StopSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, err := c.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return unlessGone(err, "stop sandbox", id)
}

// RemoveSandbox removes a sandbox and its containers. A sandbox that does not exist is no
// error.
func (c *Client) RemoveSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, err := c.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return unlessGone(err, "remove sandbox", id)
}

// CreateContainer creates a container in a sandbox and returns its ID.
func (c *Client) CreateContainer(
	ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	r, err := c.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandboxID, Config: config, SandboxConfig: sandbox,
	})
	if err != nil {
		return "", fmt.Errorf("create container: %w", err)
	}
	return r.ContainerId, nil
}

// StartContainer starts a container that was created.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if _, err := c.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("start container %s: %w", id, err)
	}
	return nil
}

// StopContainer asks a container to end, and kills it after the grace period. A container
// that does not exist is no error.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+c.timeout)
	defer cancel()
	_, err := c.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: wholeSeconds(grace)})
	return unlessGone(err, "stop container", id)
}

// RemoveContainer removes a container. A container that does not exist is no error.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, err := c.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return unlessGone(err, "remove container", id)
}

func unlessGone(err error, what, id string) error {
	if err == nil || IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, id, err)
}

// ImageRef returns the runtime's ID of an image, or "" if it does not have the image.
func (c *Client) ImageRef(ctx context.Context, image string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.image.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		return "", fmt.Errorf("look for image %s: %w", image, err)
	}
	return r.GetImage().GetId(), nil
}
