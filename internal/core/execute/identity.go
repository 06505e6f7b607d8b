package execute

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/runtime/render"
)

// runSandbox has the runtime make a sandbox, and tells what of the pod's wishes could
// not be kept.
func (e *Executor) runSandbox(ctx context.Context, t *task, a plan.CreateSandbox, handler string) (string, error) {
	if render.OwnUsers(t.pod) && !e.CanMapUsers(handler) {
		return "", fmt.Errorf("hostUsers: false needs user namespaces, and the runtime handler %q does not support them", handler)
	}
	if own := t.pod.Spec.SecurityContext; own != nil {
		if err := e.checkLabel(own.SELinuxOptions); err != nil {
			return "", err
		}
	}
	ids, err := e.usersOf(t.pod)
	if err != nil {
		return "", err
	}
	node := e.Node
	if e.Resolver != nil {
		if node.DNS, err = e.Resolver(); err != nil {
			return "", err
		}
	}
	config, err := render.Sandbox(e.inGroups(t.pod), a, ids, node)
	if err != nil {
		return "", err
	}
	_, notices := render.Resolver(t.pod, node)
	for _, n := range notices {
		e.Events.Record(t.pod, v1.EventTypeWarning, n.Reason, n.Message)
	}
	t.remade, t.ips, t.hosts = true, nil, "" // its address will be another one
	var id string
	err = e.call(t, "create the sandbox", t.allWait, func() (err error) {
		id, err = e.Runtime.RunSandbox(ctx, config, handler)
		return err
	})
	return id, err
}

// checkLabel refuses a label that can't be had.
func (e *Executor) checkLabel(asked *v1.SELinuxOptions) error {
	if asked == nil || e.CheckLabel == nil {
		return nil
	}
	return e.CheckLabel(asked)
}

// usersOf returns the ids that a pod has to itself, if it wants any.
func (e *Executor) usersOf(p *v1.Pod) (render.IDs, error) {
	if !render.OwnUsers(p) {
		return render.IDs{}, nil
	}
	return e.UserNamespaces.Allocate(p.UID)
}

// imageUser returns who the image of a container wants to be, if that matters, and
// refuses a container that must not run as root and would.
func (e *Executor) imageUser(ctx context.Context, p *v1.Pod, c *v1.Container, ref string) (*render.User, error) {
	var user *render.User
	if render.NeedsUser(p, c) {
		found, err := e.ImageUser(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("find the user of image %s: %w", c.Image, err)
		}
		user = &found
	}
	return user, render.CheckNonRoot(p, c, user)
}
