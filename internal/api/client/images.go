package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"berth/internal/api"
	"berth/internal/lib/progress"
)

// PullImage pulls an image to the node, and calls report with the progress.
func (c *Client) PullImage(ctx context.Context, image string, report func(progress.Progress)) error {
	answer, err := c.do(ctx, http.MethodPost, "/v1/images/pull", url.Values{api.QueryImage: {image}})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = c.imageEvents(ctx, "pull", answer.Body, report)
	return err
}

// LoadImages sends an archive of images to the node, and returns the names of the images.
func (c *Client) LoadImages(ctx context.Context, name string, archive io.Reader) ([]string, error) {
	answer, err := c.send(ctx, http.MethodPost, "/v1/images/load", url.Values{api.QueryName: {name}}, archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return c.imageEvents(ctx, "load", answer.Body, func(progress.Progress) {})
}

// imageEvents reads the progress of a pull or a load, and returns the names of its images.
func (c *Client) imageEvents(ctx context.Context, what string, answer io.Reader, report func(progress.Progress)) (names []string, err error) {
	err = readEvents(ctx, c, what, answer, func(e api.ImageEvent) (last bool, err error) {
		switch e.Step {
		case api.ImageDone:
			names = e.Images
			return true, nil
		case api.ImageFailed:
			return true, errors.New(e.Error)
		}
		report(e.Progress)
		return false, nil
	})
	return names, err
}

// RemoveImage removes an unused image.
func (c *Client) RemoveImage(ctx context.Context, image string) error {
	answer, err := c.do(ctx, http.MethodDelete, "/v1/images", url.Values{api.QueryImage: {image}})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// CollectImages removes unused images if the disk is full, or with dryRun returns which it would
// remove; with all it removes all unused images.
func (c *Client) CollectImages(ctx context.Context, dryRun, all bool) (*api.GCReport, error) {
	q := url.Values{api.QueryDryRun: {fmt.Sprint(dryRun)}, api.QueryAll: {fmt.Sprint(all)}}
	answer, err := c.do(ctx, http.MethodPost, "/v1/images/gc", q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	var report api.GCReport
	if err := json.NewDecoder(answer.Body).Decode(&report); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.socket, err)
	}
	if report.Error != "" {
		return nil, errors.New(report.Error)
	}
	return &report, nil
}
