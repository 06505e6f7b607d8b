package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/lib/pod"
)

// Ephemeral containers are added to running pods for debugging. A pod of an API server is changed
// there, and the change comes as an update. A static pod is not stored at an API server: its
// ephemeral containers are stored beside its manifest, and added to each version of the pod that
// its source sends.

// EphemeralContainers stores the ephemeral containers of static pods.
type EphemeralContainers interface {
	Of(uid pod.UID) []v1.EphemeralContainer
	// Add is on disk when it returns.
	Add(uid pod.UID, c v1.EphemeralContainer) error
	Forget(uid pod.UID) error
}

// noEphemeralContainers is an empty store to which nothing can be added.
type noEphemeralContainers struct{}

func (noEphemeralContainers) Of(pod.UID) []v1.EphemeralContainer { return nil }
func (noEphemeralContainers) Add(pod.UID, v1.EphemeralContainer) error {
	return errors.New("no containers can be added here")
}
func (noEphemeralContainers) Forget(pod.UID) error { return nil }

// maxEphemeralContainers is how many containers can be added to a pod. They can't be removed.
const maxEphemeralContainers = 32

// containerAdded is a message to the loop: a container of this pod was stored.
type containerAdded struct {
	uid       pod.UID
	container string
	done      chan error
}

// AddContainer adds an ephemeral container to a static pod. The error is for users.
func (a *Agent) AddContainer(ctx context.Context, p *v1.Pod, c v1.EphemeralContainer) error {
	now, wanted := a.Desired.Get(p.UID)
	if !wanted || !pod.IsStatic(now) {
		return fmt.Errorf("pod %s is not a static pod of this node", pod.Ref(p))
	}
	if err := checkEphemeralContainer(now, c); err != nil {
		return fmt.Errorf("the container can't be added to pod %s: %w", pod.Ref(p), err)
	}
	defaultEphemeralContainer(&c)
	// Not in the loop, which must not wait for the disk.
	if err := a.EphemeralContainers.Add(p.UID, c); err != nil {
		return err
	}
	r := containerAdded{p.UID, c.Name, make(chan error, 1)}
	send(ctx, a.containersAdded, r)
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *Agent) handleContainerAdded(r containerAdded) {
	p, wanted := a.Desired.Get(r.uid)
	if !wanted {
		a.forgetEphemeralContainers(r.uid) // it was removed while the container was stored
		r.done <- errors.New("the pod is gone")
		return
	}
	p = a.withEphemeralContainers(p)
	if pod.ContainerSpec(p, r.container) == nil { // a new life began: the container was stored for the life before
		r.done <- errors.New("the pod was stopped and begins anew: try again when it runs")
		return
	}
	a.Log.Info("container added for debugging", "pod", pod.Ref(p), "uid", p.UID, "container", r.container)
	a.Desired.Upsert(p)
	if !a.states.admission(p.UID).withoutWorker() {
		a.workers.Desire(p)
	}
	a.updateView(p)
	r.done <- nil
}

// withEphemeralContainers returns p with the stored containers, if it is a static pod.
func (a *Agent) withEphemeralContainers(p *v1.Pod) *v1.Pod {
	if !pod.IsStatic(p) || pod.IsMirror(p) {
		return p
	}
	added := a.EphemeralContainers.Of(p.UID)
	if len(added) == 0 {
		return p
	}
	more := *p
	more.Spec.EphemeralContainers = added // a manifest has none
	return &more
}

// forgetEphemeralContainers drops the stored containers of a pod. It writes a small file if there
// were any.
func (a *Agent) forgetEphemeralContainers(uid pod.UID) {
	if err := a.EphemeralContainers.Forget(uid); err != nil {
		a.Log.Warn("what was added to a pod for debugging is still noted", "uid", uid, "err", err)
	}
}

// forgetPastEphemeralContainers drops the stored containers of new pods of which no container
// runs: they were added to a life that is over. Before the first list this is not known, and
// nothing is dropped.
func (a *Agent) forgetPastEphemeralContainers(pods []*v1.Pod) {
	if a.heldAtStart == nil {
		return
	}
	for _, p := range pods {
		if have := a.heldAtStart[p.UID]; have == nil || !slices.ContainsFunc(have.Containers, pod.Container.MayRun) {
			a.forgetEphemeralContainers(p.UID)
		}
	}
}

// checkEphemeralContainer returns why a container can't be added to p.
func checkEphemeralContainer(p *v1.Pod, c v1.EphemeralContainer) error {
	switch {
	case len(validation.IsDNS1123Label(c.Name)) > 0:
		return fmt.Errorf("%q is not the name of a container", c.Name)
	case pod.ContainerSpec(p, c.Name) != nil:
		return fmt.Errorf("it has a container %q already", c.Name)
	case strings.TrimSpace(c.Image) == "":
		return errors.New("it needs an image")
	case c.TargetContainerName != "" && pod.ContainerSpec(p, c.TargetContainerName) == nil:
		return fmt.Errorf("there is no container %q to look at", c.TargetContainerName)
	case len(c.Ports) > 0, c.LivenessProbe != nil, c.ReadinessProbe != nil, c.StartupProbe != nil, c.Lifecycle != nil,
		len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0, c.RestartPolicy != nil, len(c.ResizePolicy) > 0:
		return errors.New("containers for debugging have no ports, probes, hooks, resources or restart policy")
	case len(p.Spec.EphemeralContainers) >= maxEphemeralContainers:
		return fmt.Errorf("%d have been added already, which is as many as may be: restart the pod", maxEphemeralContainers)
	}
	return nil
}

// defaultEphemeralContainer sets the defaults that a container of a manifest has.
func defaultEphemeralContainer(c *v1.EphemeralContainer) {
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = v1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = v1.TerminationMessageReadFile
	}
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = v1.PullIfNotPresent // a user waits for it
	}
}
