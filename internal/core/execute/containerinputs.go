package execute

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/runtime/image"
	"berth/internal/runtime/render"
)

// containerInputs are the image, user, variables, mounts and devices of a container. The API server
// or a file system may take long to answer, so they are found before the pod waits for a start
// slot. Only those that depend on the address of a sandbox that is yet to be made are found later.
type containerInputs struct {
	imageRef string
	user     *render.User
	refs     render.References
	env      []render.Variable
	mounts   []render.Mount
	devices  []render.Device
	complete bool // env, mounts and devices are known
}

// findInputs returns the inputs of the containers that are to be started and whose images are
// there, by name. A container for which something is missing is started by a later sync.
func (e *Executor) findInputs(ctx context.Context, t *task, images map[string]image.State) map[string]*containerInputs {
	out := map[string]*containerInputs{}
	for _, a := range t.plan.Actions {
		start, ok := a.(plan.StartContainer)
		if !ok || images[start.Name].Ref == "" {
			continue
		}
		n, err := e.inputsOf(ctx, t, pod.ContainerSpec(t.pod, start.Name), images[start.Name].Ref)
		if ctx.Err() != nil {
			return out // nothing will be started
		}
		if err != nil {
			err = e.startFailed(t, start.Name, pod.ReasonCreateConfigError, err)
			t.failed = append(t.failed, fmt.Errorf("container %s: %w", start.Name, err))
			continue
		}
		out[start.Name] = n
	}
	return out
}

func (e *Executor) inputsOf(ctx context.Context, t *task, c *v1.Container, imageRef string) (*containerInputs, error) {
	n := &containerInputs{imageRef: imageRef}
	var err error
	if own := c.SecurityContext; own != nil {
		if err = e.checkLabel(own.SELinuxOptions); err != nil {
			return nil, err
		}
	}
	if n.user, err = e.imageUser(ctx, t.pod, c, imageRef); err != nil {
		return nil, err
	}
	if n.refs, err = e.references(ctx, t, c); err != nil {
		return nil, err
	}
	if needsPodIP(c) && !t.pod.Spec.HostNetwork && makesSandbox(t.plan) {
		return n, nil
	}
	return n, e.completeInputs(ctx, t, c, n)
}

// completeInputs finds the inputs that may depend on the address of the pod.
func (e *Executor) completeInputs(ctx context.Context, t *task, c *v1.Container, n *containerInputs) error {
	if n.complete {
		return nil
	}
	var err error
	if needsPodIP(c) {
		if n.refs.Facts.PodIPs, err = e.podIPs(ctx, t); err != nil {
			return err
		}
	}
	if n.env, err = render.Environment(t.pod, c, n.refs); err != nil {
		return err
	}
	env := map[string]string{}
	for _, v := range n.env {
		env[v.Name] = v.Value
	}
	if n.mounts, err = e.Volumes.Mounts(ctx, t.pod, c, env); err != nil {
		return err
	}
	n.devices, err = e.Volumes.Devices(ctx, t.pod, c)
	n.complete = err == nil
	return err
}

// resolve returns all that package render needs to know of a container. Its sandbox exists.
func (e *Executor) resolve(ctx context.Context, t *task, c *v1.Container, n *containerInputs) (render.Resolved, error) {
	r := render.Resolved{ImageRef: n.imageRef, User: n.user}
	var err error
	if r.IDs, err = e.userIDs(t.pod); err != nil {
		return r, err
	}
	if r.Hosts, err = e.ensureHostsFile(ctx, t); err != nil {
		return r, err
	}
	err = e.completeInputs(ctx, t, c, n)
	r.Environment, r.Mounts, r.Devices = n.env, n.mounts, n.devices
	return r, err
}

// imageUser returns the user of a container's image, nil if it doesn't matter, and an error for a
// container that would run as root and must not.
func (e *Executor) imageUser(ctx context.Context, p *v1.Pod, c *v1.Container, ref string) (*render.User, error) {
	var user *render.User
	if render.NeedsUser(p, c) {
		found, err := e.RuntimeInfo.ImageUser(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("find the user of image %s: %w", c.Image, err)
		}
		user = &found
	}
	return user, render.CheckNonRoot(p, c, user)
}
