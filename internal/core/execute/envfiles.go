package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/render"
)

// envFiles reads the files in volumes that variables of a container refer to (fileKeyRef). A file
// that does not exist is left out: package render knows whether the variable is optional.
func (e *Executor) envFiles(ctx context.Context, p *v1.Pod, c *v1.Container) (map[render.EnvFile]map[string]string, error) {
	out := map[render.EnvFile]map[string]string{}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil || from.FileKeyRef == nil {
			continue
		}
		at := render.EnvFile{Volume: from.FileKeyRef.VolumeName, Path: from.FileKeyRef.Path}
		if out[at] != nil {
			continue
		}
		text, err := e.Volumes.File(ctx, p, at.Volume, at.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("variable %s: file %s of volume %s: %w", c.Env[i].Name, at.Path, at.Volume, err)
		}
		if out[at], err = render.ParseEnvFile(text); err != nil {
			return nil, fmt.Errorf("variable %s: file %s of volume %s: %w", c.Env[i].Name, at.Path, at.Volume, err)
		}
	}
	return out, nil
}
