package client

import (
	"context"
	"net/url"

	v1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/api"
)

// Machine returns the Node object of the node that berth runs on.
func (c *Client) Machine(ctx context.Context) (*v1.Node, error) {
	return read[v1.Node](ctx, c, "/v1/node", nil)
}

// Images returns the images of the runtime.
func (c *Client) Images(ctx context.Context) (*api.ImageList, error) {
	return read[api.ImageList](ctx, c, "/v1/images", nil)
}

// Volumes returns the volumes of all pods.
func (c *Client) Volumes(ctx context.Context) (*api.VolumeList, error) {
	return read[api.VolumeList](ctx, c, "/v1/volumes", nil)
}

// Summary returns the resource usage of the node and its pods.
func (c *Client) Summary(ctx context.Context) (*stats.Summary, error) {
	return read[stats.Summary](ctx, c, "/stats/summary", nil)
}

// Probes returns the last results of the probes of a pod.
func (c *Client) Probes(ctx context.Context, namespace, name string) (*api.ProbeList, error) {
	return read[api.ProbeList](ctx, c, podPath(namespace, name, "probes"), nil)
}

// Waterfall returns the phases of the start of a pod.
func (c *Client) Waterfall(ctx context.Context, namespace, name string) (*api.Waterfall, error) {
	return read[api.Waterfall](ctx, c, podPath(namespace, name, "waterfall"), nil)
}

func podPath(namespace, name, what string) string {
	return "/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(name) + "/" + what
}
