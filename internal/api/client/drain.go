package client

import (
	"context"
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

// Drain drains the node, and calls onEvent with its progress. It returns the pods that have not ended
// in time. If ctx ends, no more pods are stopped, and the node stays drained.
func (c *Client) Drain(ctx context.Context, r api.DrainRequest, onEvent func(api.DrainEvent)) (left []string, err error) {
	answer, err := c.do(ctx, http.MethodPost, "/v1/drain", drainQuery(r))
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	err = readEvents(ctx, c, "drain", answer.Body, func(e api.DrainEvent) (last bool, err error) {
		switch e.Step {
		case api.DrainDone:
			left = e.Left
			return true, nil
		case api.DrainFailed:
			return true, errors.New(e.Error)
		}
		onEvent(e)
		return false, nil
	})
	return left, err
}

// Undrain ends the drain of a node: its pods run again.
func (c *Client) Undrain(ctx context.Context) error {
	answer, err := c.do(ctx, http.MethodDelete, "/v1/drain", nil)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
