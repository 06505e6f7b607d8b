package cri

import (
	"context"
	"fmt"

	"berth/internal/runtime/render"
)

// ImageUser reads the user as which an image wants its processes to run. ref is the ID of the image.
func (c *Client) ImageUser(ctx context.Context, ref string) (render.User, error) {
	images, err := c.Images(ctx)
	if err != nil {
		return render.User{}, err
	}
	for _, i := range images {
		if i.ID == ref {
			return render.User{UID: i.UID, Name: i.User}, nil
		}
	}
	return render.User{}, fmt.Errorf("the runtime has no image %s any more", ref)
}
