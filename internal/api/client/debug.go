package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/find"
)

// Debug adds a container to a running pod, to look into it.
func (c *Client) Debug(ctx context.Context, p *v1.Pod, add v1.EphemeralContainer) error {
	body, err := json.Marshal(add)
	if err != nil {
		return fmt.Errorf("encode container %s: %w", add.Name, err)
	}
	path := "/v1/namespaces/" + url.PathEscape(p.Namespace) + "/pods/" + url.PathEscape(p.Name) + "/ephemeralcontainers"
	answer, err := c.send(ctx, http.MethodPost, path, nil, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Started waits until a container of a pod runs, or has run, and returns the pod
// then. One that can't be started is an error.
func (c *Client) Started(ctx context.Context, p *v1.Pod, container string) (*v1.Pod, error) {
	return c.await(ctx, p, func(now *v1.Pod) (bool, error) {
		s := find.Status(now, container).State
		if s.Waiting != nil && stuck(s.Waiting.Reason) {
			return false, NotRunning(now, container)
		}
		return s.Running != nil || s.Terminated != nil, nil
	})
}

// Ended waits until a container of a pod has ended, and returns how.
func (c *Client) Ended(ctx context.Context, p *v1.Pod, container string) (*v1.ContainerStateTerminated, error) {
	now, err := c.await(ctx, p, func(now *v1.Pod) (bool, error) {
		return find.Status(now, container).State.Terminated != nil, nil
	})
	if err != nil {
		return nil, err
	}
	return find.Status(now, container).State.Terminated, nil
}

// errSeen ends a watch that has seen what it was for.
var errSeen = errors.New("seen")

// await watches a pod until it is as wanted.
func (c *Client) await(ctx context.Context, p *v1.Pod, wanted func(*v1.Pod) (bool, error)) (now *v1.Pod, err error) {
	err = c.Watch(ctx, Filter{Namespace: p.Namespace, Name: p.Name}, func(e api.Event) error {
		ours := e.Pod != nil && e.Pod.UID == p.UID
		switch {
		case e.Type == api.Synced && now == nil, e.Type == api.Deleted && ours:
			return fmt.Errorf("pod %s is gone", find.ManifestName(p))
		case !ours:
			return nil
		}
		now = e.Pod
		if seen, err := wanted(now); err != nil || !seen {
			return err
		}
		return errSeen
	})
	if errors.Is(err, errSeen) {
		return now, nil
	}
	return nil, err
}

// stuck tells whether a reason to wait hardly passes by itself.
func stuck(reason string) bool {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	}
	return false
}
