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

// Containers are added to running pods to look into them. For a pod of an API server
// that happens there, and comes here as a change of the pod. A static pod has nobody
// who would hold them: they are kept beside it, and put into it whenever it comes by.

// EphemeralContainers remember what was added to static pods.
type EphemeralContainers interface {
	Of(uid pod.UID) []v1.EphemeralContainer
	// Add is on disk when it returns.
	Add(uid pod.UID, c v1.EphemeralContainer) error
	Forget(uid pod.UID) error
}

// noEphemeralContainers is for those who can't remember.
type noEphemeralContainers struct{}

func (noEphemeralContainers) Of(pod.UID) []v1.EphemeralContainer { return nil }
func (noEphemeralContainers) Add(pod.UID, v1.EphemeralContainer) error {
	return errors.New("no containers can be added here")
}
func (noEphemeralContainers) Forget(pod.UID) error { return nil }

// maxEphemeralContainers is how many containers can be added to a pod. They can't be taken away.
const maxEphemeralContainers = 32

// containerAdded tells the loop that a container was added to a pod.
type containerAdded struct {
	uid       pod.UID
	container string
	done      chan error
}

// AddContainer adds a container to a static pod that runs. The error says why it may
// not be, for users.
func (a *Agent) AddContainer(ctx context.Context, p *v1.Pod, c v1.EphemeralContainer) error {
	now, wanted := a.Desired.Get(p.UID)
	if !wanted || !pod.IsStatic(now) {
		return fmt.Errorf("pod %s is not a static pod of this node", pod.Ref(p))
	}
	if err := checkEphemeralContainer(now, c); err != nil {
		return fmt.Errorf("the container can't be added to pod %s: %w", pod.Ref(p), err)
	}
	defaultEphemeralContainer(&c)
	// Here, and not in the loop: this takes the disk's time.
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
		a.forgetEphemeralContainers(r.uid) // it went while the container was noted
		r.done <- errors.New("the pod is gone")
		return
	}
	p = a.withEphemeralContainers(p)
	if pod.ContainerSpec(p, r.container) == nil { // it went and came back: what was noted was for the life before
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

// withEphemeralContainers returns p with what was added to it.
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

// forgetEphemeralContainers is for pods that are gone. It writes a small file, and only if
// somebody had added something.
func (a *Agent) forgetEphemeralContainers(uid pod.UID) {
	if err := a.EphemeralContainers.Forget(uid); err != nil {
		a.Log.Warn("what was added to a pod for debugging is still noted", "uid", uid, "err", err)
	}
}

// forgetPastEphemeralContainers is for pods that the agent sees for the first time. What was added for
// debugging to one of which no container runs was added to a life of it that is over. That
// is known once the runtime was listed.
func (a *Agent) forgetPastEphemeralContainers(pods []*v1.Pod) {
	if a.foundAtStart == nil {
		return
	}
	alive := func(c pod.Container) bool { return c.State == pod.ContainerRunning || c.State == pod.ContainerUnknown }
	for _, p := range pods {
		if have := a.foundAtStart[p.UID]; have == nil || !slices.ContainsFunc(have.Containers, alive) {
			a.forgetEphemeralContainers(p.UID)
		}
	}
}

// checkEphemeralContainer says what is wrong with a container that is to be added to p.
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

// defaultEphemeralContainer gives a container the defaults that one in a manifest gets.
func defaultEphemeralContainer(c *v1.EphemeralContainer) {
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = v1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = v1.TerminationMessageReadFile
	}
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = v1.PullIfNotPresent // somebody waits in front of a screen
	}
}
