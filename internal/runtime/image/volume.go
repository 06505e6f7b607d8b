package image

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// EnsureVolume has the image of a volume pulled like that of a container. It returns the ID of the image, or an
// error and the time at which the next attempt is due.
func (m *Manager) EnsureVolume(ctx context.Context, p *v1.Pod, name string, s *v1.ImageVolumeSource) (string, time.Time, error) {
	// No container has a slash in its name.
	state := m.Ensure(ctx, p, &v1.Container{Name: "volume/" + name, Image: s.Reference, ImagePullPolicy: s.PullPolicy})
	if state.Ref == "" {
		return "", state.Until, fmt.Errorf("%s: %s", state.Reason, state.Message)
	}
	return state.Ref, time.Time{}, nil
}
