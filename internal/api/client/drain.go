package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"berth/internal/api"
)

func drainQuery(r api.DrainRequest) url.Values {
	q := url.Values{}
	if r.Grace != nil {
		q.Set(api.QueryGrace, strconv.FormatInt(*r.Grace, 10))
	}
	if r.Timeout > 0 {
		q.Set(api.QueryTimeout, r.Timeout.String())
	}
	if r.KeepStatic {
		q.Set(api.QueryKeepStatic, "true")
	}
	return q
}

// Drain has the pods of the node stopped, and calls tell as that goes on. It
// returns those that have not ended in time. If ctx ends, no more pods are told to
// stop, and the node stays closed.
func (c *Client) Drain(ctx context.Context, r api.DrainRequest, tell func(api.DrainEvent)) (left []string, err error) {
	answer, err := c.do(ctx, http.MethodPost, "/v1/drain", drainQuery(r))
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	events := json.NewDecoder(answer.Body)
	for {
		var e api.DrainEvent
		if err := events.Decode(&e); err != nil {
			return nil, c.broken(ctx, "drain", err)
		}
		switch e.Step {
		case api.DrainDone:
			return e.Left, nil
		case api.DrainFailed:
			return nil, errors.New(e.Error)
		default:
			tell(e)
		}
	}
}

// Undrain lets the pods of a node run again that was drained.
func (c *Client) Undrain(ctx context.Context) error {
	answer, err := c.do(ctx, http.MethodDelete, "/v1/drain", nil)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
