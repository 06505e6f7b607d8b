package volume

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/downward"
	"berth/internal/lib/volumekind"
)

func setupDownwardAPI(_ context.Context, j *job, v *v1.Volume) (place, error) {
	source := v.DownwardAPI
	return j.setupContent(volumekind.DownwardAPI, v.Name, onDisk, false, func(p payload) error {
		return j.downward(p, source.Items, source.DefaultMode)
	})
}

// downward adds the files of a downward API volume.
func (j *job) downward(p payload, items []v1.DownwardAPIVolumeFile, defaultMode *int32) error {
	for i := range items {
		item := &items[i]
		value, err := j.field(item)
		if err != nil {
			return fmt.Errorf("file %q: %w", item.Path, err)
		}
		mode, err := fileMode(item.Mode, defaultMode)
		if err != nil {
			return fmt.Errorf("file %q: %w", item.Path, err)
		}
		if err := p.add(item.Path, file{data: []byte(value), mode: mode, uid: -1}); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) field(item *v1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case item.FieldRef != nil:
		return downward.Value(j.pod, item.FieldRef.FieldPath, j.facts)
	case item.ResourceFieldRef != nil:
		return downward.Resource(j.pod, item.ResourceFieldRef, "", j.m.cfg.Allocatable())
	default:
		return "", errors.New("it has neither a fieldRef nor a resourceFieldRef")
	}
}
