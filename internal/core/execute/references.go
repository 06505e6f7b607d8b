package execute

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth/internal/lib/downward"
	"berth/internal/lib/pod"
	"berth/internal/pods/volume"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/waterfall"
)

// references finds what the variables of a container refer to, but for the addresses
// of the pod: they are known once there is a sandbox.
func (e *Executor) references(ctx context.Context, t *task, c *v1.Container) (render.References, error) {
	r := render.References{
		ConfigMaps: map[string]*v1.ConfigMap{}, Secrets: map[string]*v1.Secret{},
		Facts:       downward.Facts{NodeName: e.Node.Name, HostIPs: e.HostIPs()},
		Allocatable: e.Allocatable(),
	}
	var err error
	if r.Services, err = e.Objects.Services(ctx, t.pod); err != nil {
		return r, err
	}
	configMaps, secrets := namedIn(c)
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

// fetch puts an object into a map if it exists. Whether it may be missing is for
// the one who reads the map to say.
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

// namedIn returns the names of the ConfigMaps and Secrets that the variables of a
// container are taken from.
func namedIn(c *v1.Container) (configMaps, secrets []string) {
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

func asksForAddress(c *v1.Container) bool {
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && strings.HasPrefix(e.ValueFrom.FieldRef.FieldPath, "status.podIP") {
			return true
		}
	}
	return false
}

// addresses returns those of the pod. Its sandbox may have been made just before,
// so that nobody has observed it yet.
func (e *Executor) addresses(ctx context.Context, t *task) ([]string, error) {
	if t.pod.Spec.HostNetwork {
		return e.HostIPs(), nil
	}
	if t.ips != nil {
		return t.ips, nil
	}
	if s := t.have.Sandbox(); s != nil && s.State == pod.SandboxReady && !t.remade {
		return s.IPs, nil
	}
	have, err := e.Runtime.Pod(ctx, t.pod.UID)
	if err != nil {
		return nil, fmt.Errorf("find the address of the pod: %w", err)
	}
	if s := have.Sandbox(); s != nil {
		t.ips = s.IPs
	}
	return t.ips, nil
}

// handlerOf returns by which of its handlers the runtime is to run a pod: that of
// its RuntimeClass. Without one it is the runtime's choice.
func (e *Executor) handlerOf(ctx context.Context, p *v1.Pod) (string, error) {
	if p.Spec.RuntimeClassName == nil || *p.Spec.RuntimeClassName == "" {
		return "", nil
	}
	class, err := e.Objects.RuntimeClass(ctx, p, *p.Spec.RuntimeClassName)
	if err != nil {
		return "", err
	}
	return class.Handler, nil
}

// setUpVolumes makes the volumes of a pod be there, with what they should hold now.
// One that can't be renewed, and is there with what it held before, holds nobody up; one
// that is not there holds up those who use it. If one was edited, what the edit ends is
// stopped first: it may hold the one from before.
func setUpVolumes(e *Executor, ctx context.Context, t *task) error {
	if e.Volumes.Edited(t.pod) {
		if err := stopUnwanted(e, ctx, t); err != nil {
			return err
		}
	}
	end := e.Telemetry.Phase(t.pod, waterfall.Volumes, "")
	due, err := e.Volumes.Setup(ctx, t.pod, nil)
	end(err)
	t.comeBack(due)
	if err == nil || ctx.Err() != nil { // nobody waits for it any more
		return err
	}
	e.Events.Record(t.pod, v1.EventTypeWarning, event.FailedMount, "MountVolume.SetUp failed for "+err.Error())
	var failed volume.Errors
	if !errors.As(err, &failed) || !t.holdBack(failed) {
		t.allWait(err.Error())
		return err
	}
	t.failed = append(t.failed, err)
	return nil
}
