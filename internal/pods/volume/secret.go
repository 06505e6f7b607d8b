package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"berth/internal/lib/volumekind"
)

func setupSecret(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	source := v.Secret
	return j.setupContent(volumekind.Secret, v.Name, inMemory, ptr.Deref(source.Optional, false), func(p payload) error {
		return j.secret(ctx, p, source.SecretName, source.Items, source.DefaultMode, source.Optional)
	})
}

// secret adds the files of a Secret.
func (j *job) secret(ctx context.Context, p payload, name string, items []v1.KeyToPath, mode *int32, optional *bool) error {
	o, err := j.m.cfg.Objects.Secret(ctx, j.pod, name)
	if err != nil {
		if ptr.Deref(optional, false) && apierrors.IsNotFound(err) {
			return nil
		}
		return fetchError("secret", name, err)
	}
	return p.keys(fmt.Sprintf("secret %q", name), o.Data, items, mode, optional)
}
