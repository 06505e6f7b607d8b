package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/cri"
)

// reopenInterval is the pause before an event stream that ended is opened again.
const reopenInterval = 200 * time.Millisecond

// Run observes until ctx ends.
func (o *Observer) Run(ctx context.Context) {
	group := run.NewGroup(ctx, o.Log)
	defer group.Stop()
	streaming := make(chan bool)
	group.Go("observe events", func(ctx context.Context) { o.followEvents(ctx, streaming) })
	o.relistLoop(ctx, streaming)
}

// followEvents keeps an event stream open, and sends on streaming when it opens and when it ends.
func (o *Observer) followEvents(ctx context.Context, streaming chan<- bool) {
	open := false
	setOpen := func(isOpen bool) {
		if isOpen == open {
			return // a runtime that is down is not listed at every attempt
		}
		open = isOpen
		select {
		case streaming <- isOpen:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		err := o.Runtime.Events(ctx, func() { setOpen(true) }, func(e cri.Event) {
			if o.markStale(e) {
				o.Enqueue(ctx, e.UID)
			}
		})
		if ctx.Err() != nil {
			return
		}
		setOpen(false)
		if cri.IsUnimplemented(err) {
			o.Log.Warn("the runtime has no container events: listing instead", "every", o.PollInterval)
			return
		}
		o.Log.Debug("container events ended", "err", err)
		_ = run.Sleep(ctx, reopenInterval)
	}
}

// relistLoop lists all pods: at once, whenever the event stream was opened anew (there were no
// events in between), and then at the slow interval.
func (o *Observer) relistLoop(ctx context.Context, streaming <-chan bool) {
	every := o.PollInterval
	timer := time.NewTimer(every)
	defer timer.Stop()
	var streak logonce.Streak
	for {
		wait := every
		err := o.relist(ctx)
		switch {
		case err == nil && streak.Recovered():
			o.Log.Info("the runtime can be listed again")
		case err != nil:
			wait = o.PollInterval
			if ctx.Err() == nil && streak.Failed(time.Now()) {
				o.Log.Warn("can't list what the runtime holds; trying again", "err", err)
			}
		}
		timer.Reset(wait)
		select {
		case up := <-streaming:
			every = o.PollInterval
			if up {
				every = o.RelistInterval
			}
		case <-o.relistNow:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// relist lists all pods of the runtime, and enqueues each pod that differs from its cached state.
func (o *Observer) relist(ctx context.Context) error {
	at := time.Now()
	listed, err := o.Runtime.List(ctx)
	if err != nil {
		return err
	}
	if o.Relisted != nil {
		o.Relisted(at, time.Since(at))
	}
	for _, uid := range o.markDiffering(listed, at) {
		o.Enqueue(ctx, uid)
	}
	return nil
}

// markDiffering returns the listed pods that differ from their cached state, and marks that state as
// stale. It drops empty states of pods that are not listed.
func (o *Observer) markDiffering(listed map[pod.UID]*pod.Observed, at time.Time) []pod.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []pod.UID
	for uid, now := range listed {
		switch e := o.known[uid]; {
		case e == nil: // never read
			out = append(out, uid)
		case e.state.At.Before(at) && summarize(now) != summarize(&e.state):
			e.changedAt = at
			out = append(out, uid)
		}
	}
	for uid, e := range o.known {
		switch {
		case listed[uid] != nil || e.state.At.IsZero() || !e.state.At.Before(at):
		case summarize(&e.state) != "":
			e.changedAt = at
			out = append(out, uid)
		default: // a worker asked for a pod that is gone
			delete(o.known, uid)
		}
	}
	slices.Sort(out)
	return out
}

// summarize returns the ids and states of sandboxes and containers, to compare two lists.
func summarize(o *pod.Observed) string {
	var b strings.Builder
	for _, s := range o.Sandboxes {
		fmt.Fprintf(&b, "%s=%d ", s.ID, s.State)
	}
	for _, c := range o.Containers {
		fmt.Fprintf(&b, "%s=%d ", c.ID, c.State)
	}
	return b.String()
}
