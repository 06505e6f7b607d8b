package execute

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/waterfall"
)

// sandbox is where containers are started.
type sandbox struct {
	id      string
	attempt plan.CreateSandbox
}

// sandboxOf returns the sandbox that the pod already has.
func sandboxOf(t *task) sandbox {
	s := t.have.Sandbox()
	if s == nil {
		return sandbox{}
	}
	return sandbox{id: s.ID, attempt: plan.CreateSandbox{Attempt: s.Attempt, Hash: s.Hash, FirstSeen: s.FirstSeen}}
}

func (e *Executor) createSandbox(ctx context.Context, t *task, a plan.CreateSandbox, handler string) (string, error) {
	t.changedRuntime = true
	began := time.Now()
	end := e.Reports.Telemetry.Phase(t.pod, waterfall.Sandbox, handler)
	id, err := e.runSandbox(ctx, t, a, handler)
	end(err)
	if err != nil {
		return "", e.sandboxFailed(t, err)
	}
	e.Log.Info("sandbox made", "pod", pod.Ref(t.pod), "sandbox", id, "attempt", a.Attempt, "took", time.Since(began).Round(time.Millisecond))
	return id, nil
}

func (e *Executor) sandboxFailed(t *task, err error) error {
	t.setAllWaiting(e.explain(err))
	e.Reports.Events.Record(t.pod, v1.EventTypeWarning, event.FailedCreatePodSandBox, "Failed to create pod sandbox: "+e.explain(err))
	return fmt.Errorf("create sandbox: %w", err)
}

// runSandbox has the runtime make a sandbox, and records events for DNS settings that could not be
// applied.
func (e *Executor) runSandbox(ctx context.Context, t *task, a plan.CreateSandbox, handler string) (string, error) {
	if render.OwnUsers(t.pod) && !e.RuntimeInfo.CanMapUsers(handler) {
		return "", fmt.Errorf("hostUsers: false needs user namespaces, and the runtime handler %q does not support them", handler)
	}
	if own := t.pod.Spec.SecurityContext; own != nil {
		if err := e.checkLabel(own.SELinuxOptions); err != nil {
			return "", err
		}
	}
	ids, err := e.userIDs(t.pod)
	if err != nil {
		return "", err
	}
	node := e.node()
	if e.Host.Resolver != nil {
		if node.DNS, err = e.Host.Resolver(); err != nil {
			return "", err
		}
	}
	config, err := render.Sandbox(e.withVolumeGroups(t.pod), a, ids, node)
	if err != nil {
		return "", err
	}
	_, notices := render.Resolver(t.pod, node)
	for _, n := range notices {
		e.Reports.Events.Record(t.pod, v1.EventTypeWarning, n.Reason, n.Message)
	}
	t.newSandbox, t.podIPs, t.hostsFile = true, nil, "" // the new sandbox will have another address
	var id string
	err = e.callRuntime(t, "create the sandbox", t.setAllWaiting, func() (err error) {
		id, err = e.Runtime.RunSandbox(ctx, config, handler)
		return err
	})
	return id, err
}

// checkLabel refuses a SELinux label that no container can have, unless containers get no labels at all.
func (e *Executor) checkLabel(asked *v1.SELinuxOptions) error {
	if asked == nil || e.RuntimeInfo.CheckLabel == nil {
		return nil
	}
	return e.RuntimeInfo.CheckLabel(asked)
}

// userIDs returns the range of user and group ids of a pod with hostUsers: false.
func (e *Executor) userIDs(p *v1.Pod) (render.IDs, error) {
	if !render.OwnUsers(p) {
		return render.IDs{}, nil
	}
	return e.Host.UserNamespaces.Allocate(p.UID)
}

// sandboxHandler returns the runtime handler for the sandbox that the plan makes, or "" if it makes none.
func (e *Executor) sandboxHandler(ctx context.Context, t *task) (string, error) {
	if !makesSandbox(t.plan) {
		return "", nil
	}
	handler, err := e.runtimeClassHandler(ctx, t.pod)
	if err != nil && ctx.Err() == nil {
		err = e.sandboxFailed(t, err)
	}
	return handler, err
}

// runtimeClassHandler returns the handler of a pod's RuntimeClass, or "" for the runtime's default.
func (e *Executor) runtimeClassHandler(ctx context.Context, p *v1.Pod) (string, error) {
	if p.Spec.RuntimeClassName == nil || *p.Spec.RuntimeClassName == "" {
		return "", nil
	}
	class, err := e.Objects.RuntimeClass(ctx, p, *p.Spec.RuntimeClassName)
	if err != nil {
		return "", err
	}
	return class.Handler, nil
}

func makesSandbox(p plan.Plan) bool {
	for _, a := range p.Actions {
		if _, ok := a.(plan.CreateSandbox); ok {
			return true
		}
	}
	return false
}
