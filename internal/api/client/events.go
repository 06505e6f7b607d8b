package client

import (
	"context"
	"net/url"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/api"
)

// EventFilter chooses events by their pod. An empty field matches all events.
type EventFilter struct {
	Namespace string
	Pod       string // name of the pod, or of its manifest
	UID       types.UID
}

func (f EventFilter) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"namespace": f.Namespace, "pod": f.Pod, "uid": string(f.UID)} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return q
}

// Events returns the events that f matches, the latest at the end.
func (c *Client) Events(ctx context.Context, f EventFilter) (*v1.EventList, error) {
	return read[v1.EventList](ctx, c, "/v1/events", f.query())
}

// WatchEvents calls handle with the present events, and then with each event that is new or has happened
// again, as Watch does with pods.
func (c *Client) WatchEvents(ctx context.Context, f EventFilter, handle func(api.Event) error) error {
	return c.watch(ctx, "/v1/events", f.query(), handle)
}
