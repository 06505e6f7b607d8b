package client

import (
	"context"
	"net/url"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/api"
)

// EventFilter chooses events by the pod that they are of. An empty field does
// not matter.
type EventFilter struct {
	Namespace string
	Pod       string // its name, or that of its manifest
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

// Events returns the events that f chooses. What happened last is at the end.
func (c *Client) Events(ctx context.Context, f EventFilter) (*v1.EventList, error) {
	return read[v1.EventList](ctx, c, "/v1/events", f.query())
}

// WatchEvents calls tell with the events that there are, and then with each that
// comes or happens again, as Watch does with pods.
func (c *Client) WatchEvents(ctx context.Context, f EventFilter, tell func(api.Event) error) error {
	return c.watch(ctx, "/v1/events", f.query(), tell)
}
