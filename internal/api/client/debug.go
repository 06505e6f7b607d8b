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

// Debug adds an ephemeral container to a running pod.
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

// Started waits until a container of a pod runs, or has ended, and returns the pod with its state.
// A container that can't be started is an error.
func (c *Client) Started(ctx context.Context, p *v1.Pod, container string) (*v1.Pod, error) {
	return c.await(ctx, p, func(now *v1.Pod) (bool, error) {
		s := find.Status(now, container).State
		if s.Waiting != nil && stuck(s.Waiting.Reason) {
			return false, NotRunning(now, container)
		}
		return s.Running != nil || s.Terminated != nil, nil
	})
}

// Ended waits until a container of a pod has ended, and returns its terminated state.
func (c *Client) Ended(ctx context.Context, p *v1.Pod, container string) (*v1.ContainerStateTerminated, error) {
	now, err := c.await(ctx, p, func(now *v1.Pod) (bool, error) {
		return find.Status(now, container).State.Terminated != nil, nil
	})
	if err != nil {
		return nil, err
	}
	return find.Status(now, container).State.Terminated, nil
}

// errSatisfied ends the watch of await.
var errSatisfied = errors.New("seen")

// await watches a pod until wanted returns true or an error.
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
		return errSatisfied
	})
	if errors.Is(err, errSatisfied) {
		return now, nil
	}
	return nil, err
}

// stuck reports whether a waiting reason needs the user: it hardly passes by itself.
func stuck(reason string) bool {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	}
	return false
}
