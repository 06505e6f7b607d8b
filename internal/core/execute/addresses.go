package execute

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// podIPs returns the addresses of a pod. The runtime is asked for those of a sandbox that was made
// in this sync: the observation is older.
func (e *Executor) podIPs(ctx context.Context, t *task) ([]string, error) {
	if t.pod.Spec.HostNetwork {
		return e.Host.IPs(), nil
	}
	if t.podIPs != nil {
		return t.podIPs, nil
	}
	if s := t.have.Sandbox(); s != nil && s.State == pod.SandboxReady && !t.newSandbox {
		return s.IPs, nil
	}
	var err error
	t.podIPs, err = e.readPodIPs(ctx, t.pod.UID)
	return t.podIPs, err
}

// readPodIPs reads the addresses of a pod from the runtime. Several goroutines of a task may call it.
func (e *Executor) readPodIPs(ctx context.Context, uid pod.UID) ([]string, error) {
	have, err := e.Runtime.Pod(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("find the address of the pod: %w", err)
	}
	if s := have.Sandbox(); s != nil {
		return s.IPs, nil
	}
	return nil, nil
}

func needsPodIP(c *v1.Container) bool {
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && strings.HasPrefix(e.ValueFrom.FieldRef.FieldPath, "status.podIP") {
			return true
		}
	}
	return false
}
