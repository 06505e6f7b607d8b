package volume

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"berth/internal/lib/volumekind"
)

func setupConfigMap(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	source := v.ConfigMap
	return j.setupContent(volumekind.ConfigMap, v.Name, onDisk, ptr.Deref(source.Optional, false), func(p payload) error {
		return j.configMap(ctx, p, source.Name, source.Items, source.DefaultMode, source.Optional)
	})
}

// configMap adds the files of a ConfigMap.
func (j *job) configMap(ctx context.Context, p payload, name string, items []v1.KeyToPath, mode *int32, optional *bool) error {
	o, err := j.m.cfg.Objects.ConfigMap(ctx, j.pod, name)
	if err != nil {
		if ptr.Deref(optional, false) && apierrors.IsNotFound(err) {
			return nil
		}
		return fetchError("configmap", name, err)
	}
	data := make(map[string][]byte, len(o.Data)+len(o.BinaryData))
	maps.Copy(data, o.BinaryData)
	for key, text := range o.Data {
		data[key] = []byte(text)
	}
	return p.keys(fmt.Sprintf("configmap %q", name), data, items, mode, optional)
}
