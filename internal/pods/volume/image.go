package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// setupImage pulls the image of an image volume. The runtime mounts it into containers, read-only.
func setupImage(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	if at, ok := j.alreadySetUp(v.Name); ok {
		return at, nil // or it would be pulled in every round
	}
	ref, again, err := j.m.cfg.Image(ctx, j.pod, v.Name, v.Image)
	if err != nil {
		j.renew(again)
		return place{}, err
	}
	return place{image: ref, readOnly: true, fixed: true}, nil
}
