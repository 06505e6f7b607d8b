package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	upgrades "k8s.io/client-go/transport/spdy"

	"berth/internal/api"
	"berth/internal/api/find"
	"berth/internal/lib/pod"
)

// Forward configures which ports of this machine are forwarded to which ports of a pod.
type Forward struct {
	Addresses []string // of this machine
	Ports     []string // LOCAL:REMOTE, or one number for both, or :REMOTE for any local one
	Out, Err  io.Writer
}

// lost is the error of a broken connection to a pod: what has happened to the pod.
type lost string

// Error implements error.
func (l lost) Error() string { return "lost connection to pod; " + string(l) }

// Forward listens, and forwards connections to a pod, until ctx ends or the pod is gone, has ended or
// was replaced.
func (n *NodeAPI) Forward(ctx context.Context, p *v1.Pod, f Forward) error {
	if pod.HasEnded(p) {
		return fmt.Errorf("pod %s has ended: nothing of it listens", find.ManifestName(p))
	}
	transport, err := n.upgrade()
	if err != nil {
		return err
	}
	at := n.base.JoinPath("portForward", p.Namespace, p.Name)
	dialer := upgrades.NewDialerForStreaming(upgrades.NewUpgraderForStreaming(transport), &http.Client{Transport: transport}, http.MethodPost, at)

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, f.Addresses, f.Ports, ctx.Done(), make(chan struct{}), f.Out, f.Err)
	if err != nil {
		return err
	}
	if n.watch != nil {
		// Broken streams are noticed only when they are used, so the pod is watched.
		watched := make(chan struct{})
		defer func() { <-watched }()
		defer end(nil)
		go func() {
			defer close(watched)
			n.watchFor(ctx, p, end)
		}()
	}
	err = forwarder.ForwardPorts()
	switch {
	case ctx.Err() != nil:
		return whyEnded(ctx)
	case errors.Is(err, portforward.ErrLostConnectionToPod):
		return n.whyLost(ctx, p)
	case err != nil:
		return n.explain(err)
	}
	return nil
}

// watchFor calls end when the pod p is gone, has ended or was replaced.
func (n *NodeAPI) watchFor(ctx context.Context, p *v1.Pod, end context.CancelCauseFunc) {
	seen := false
	// An error of the watch does not matter: the streams end for the same cause.
	_ = n.watch(ctx, Filter{Namespace: p.Namespace, Name: p.Name}, func(e api.Event) error {
		now := e.Pod
		switch {
		case e.Type == api.Synced && !seen, now != nil && now.UID == p.UID && e.Type == api.Deleted:
			now, _ = n.reload(ctx, p) // a new pod may have the same name
		case now == nil || now.UID != p.UID:
			return nil
		}
		seen = true
		if why := whyGone(p, now); why != "" {
			end(why)
		}
		return nil
	})
}

const (
	lookups        = 5 // of a pod whose connection broke
	lookupInterval = 200 * time.Millisecond
)

// whyLost returns what has happened to a pod whose connection broke. It looks the pod up several
// times, since the agent may notice late.
func (n *NodeAPI) whyLost(ctx context.Context, p *v1.Pod) error {
	for range lookups {
		now, err := n.reload(ctx, p)
		switch {
		case ctx.Err() != nil: // the watch of the pod was faster
			return whyEnded(ctx)
		case err != nil:
			return fmt.Errorf("lost connection to pod: %w", err)
		}
		if why := whyBroken(p, now); why != "" {
			return why
		}
		select {
		case <-time.After(lookupInterval):
		case <-ctx.Done():
			return whyEnded(ctx)
		}
	}
	return lost("the pod " + find.ManifestName(p) + " runs: does it listen on that port?")
}

// whyEnded returns the lost error with which ctx was cancelled, or else the error of ctx.
func whyEnded(ctx context.Context) error {
	if why := lost(""); errors.As(context.Cause(ctx), &why) {
		return why
	}
	return ctx.Err()
}

// whyBroken returns why connections to a pod may have broken, from its state before and now, or "".
func whyBroken(before, now *v1.Pod) lost {
	if why := whyGone(before, now); why != "" {
		return why
	}
	if restarts(now) > restarts(before) {
		return lost("the pod " + find.ManifestName(before) + " was restarted")
	}
	for _, c := range now.Spec.Containers {
		if err := NotRunning(now, c.Name); err != nil {
			return lost(err.Error())
		}
	}
	return ""
}

// whyGone returns why no connection to a pod can work any more, from its state before and now, or "".
func whyGone(before, now *v1.Pod) lost {
	name := find.ManifestName(before)
	switch {
	case now == nil:
		return lost("the pod " + name + " is gone")
	case now.UID != before.UID:
		return lost("the pod " + name + " was replaced by a new one")
	case pod.HasEnded(now):
		return lost("the pod " + name + " has ended")
	case before.Status.PodIP != "" && now.Status.PodIP != "" && now.Status.PodIP != before.Status.PodIP:
		return lost("the pod " + name + " was restarted")
	}
	return ""
}

func restarts(p *v1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}
