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

// Forward says which ports of this machine lead to which ports of a pod.
type Forward struct {
	Addresses []string // of this machine
	Ports     []string // LOCAL:REMOTE, or one number for both, or :REMOTE for any local one
	Out, Err  io.Writer
}

// lost says what became of a pod whose connection broke.
type lost string

// Error implements error.
func (l lost) Error() string { return "lost connection to pod; " + string(l) }

// Forward listens, and passes connections on to a pod, until ctx ends or the pod
// that it began with no longer runs.
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
		// The streams of a pod that went are found broken only when they are used.
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

// watchFor calls end when p is no longer the pod that it was.
func (n *NodeAPI) watchFor(ctx context.Context, p *v1.Pod, end context.CancelCauseFunc) {
	seen := false
	// If the watch ends, so do the streams, and that is the end in any case.
	_ = n.watch(ctx, Filter{Namespace: p.Namespace, Name: p.Name}, func(e api.Event) error {
		now := e.Pod
		switch {
		case e.Type == api.Synced && !seen, now != nil && now.UID == p.UID && e.Type == api.Deleted:
			now, _ = n.again(ctx, p) // there may be another of its name
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
	looks     = 5 // for what became of a pod
	lookPause = 200 * time.Millisecond
)

// whyLost looks for what became of a pod. The agent may be late to know.
func (n *NodeAPI) whyLost(ctx context.Context, p *v1.Pod) error {
	for range looks {
		now, err := n.again(ctx, p)
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
		case <-time.After(lookPause):
		case <-ctx.Done():
			return whyEnded(ctx)
		}
	}
	return lost("the pod " + find.ManifestName(p) + " runs: does it listen on that port?")
}

// whyEnded returns why the pod is lost if that ended ctx, and else the error of ctx.
func whyEnded(ctx context.Context) error {
	if why := lost(""); errors.As(context.Cause(ctx), &why) {
		return why
	}
	return ctx.Err()
}

// whyBroken says why connections to the pod of before may have broken.
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

// whyGone says why no connection to the pod of before leads anywhere any more. It
// is empty if one may.
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
