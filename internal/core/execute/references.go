package execute

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth/internal/lib/downward"
	"berth/internal/runtime/render"
)

// references finds the objects, files and facts that the variables of a container refer to. The
// addresses of the pod are added once there is a sandbox.
func (e *Executor) references(ctx context.Context, t *task, c *v1.Container) (render.References, error) {
	r := render.References{
		ConfigMaps: map[string]*v1.ConfigMap{}, Secrets: map[string]*v1.Secret{},
		Facts:       downward.Facts{NodeName: e.Node.Name, HostIPs: e.Host.IPs()},
		Allocatable: e.Host.Allocatable(),
	}
	var err error
	if r.Services, err = e.Objects.Services(ctx, t.pod); err != nil {
		return r, err
	}
	configMaps, secrets := referencedNames(c)
	for _, name := range configMaps {
		if err := fetch(ctx, e.Objects.ConfigMap, t.pod, name, r.ConfigMaps); err != nil {
			return r, err
		}
	}
	for _, name := range secrets {
		if err := fetch(ctx, e.Objects.Secret, t.pod, name, r.Secrets); err != nil {
			return r, err
		}
	}
	r.Files, err = e.envFiles(ctx, t.pod, c)
	return r, err
}

// fetch puts an object into a map if it exists. Package render knows whether a missing one is an
// error.
func fetch[T any](
	ctx context.Context, get func(ctx context.Context, p *v1.Pod, name string) (T, error), p *v1.Pod, name string, into map[string]T,
) error {
	object, err := get(ctx, p, name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	default:
		into[name] = object
	}
	return nil
}

// referencedNames returns the names of the ConfigMaps and Secrets that the variables of a
// container are taken from.
func referencedNames(c *v1.Container) (configMaps, secrets []string) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			configMaps = append(configMaps, from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			secrets = append(secrets, from.SecretRef.Name)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			configMaps = append(configMaps, e.ValueFrom.ConfigMapKeyRef.Name)
		}
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			secrets = append(secrets, e.ValueFrom.SecretKeyRef.Name)
		}
	}
	return configMaps, secrets
}
