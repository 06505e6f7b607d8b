// Package run starts goroutines: each has a name, an owner and an end. A Group owns
// goroutines; the code that made the group ends it with Stop, which waits for them.
package run

import (
	"context"
	"log/slog"
	"sync"
)

// Group is a set of named goroutines that share one context.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc
	log    *slog.Logger
	wg     sync.WaitGroup
}

// NewGroup returns an empty group whose goroutines end when ctx does.
func NewGroup(ctx context.Context, log *slog.Logger) *Group {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{ctx: ctx, cancel: cancel, log: log}
}

// Context returns the context of the goroutines of the group.
func (g *Group) Context() context.Context { return g.ctx }

// Go starts f under a name. f must return soon after its context ends.
func (g *Group) Go(name string, f func(context.Context)) {
	g.wg.Go(func() {
		g.log.Debug("goroutine starts", "name", name)
		f(g.ctx)
		g.log.Debug("goroutine ended", "name", name)
	})
}

// Stop ends the context of the group and waits for its goroutines.
func (g *Group) Stop() {
	g.cancel()
	g.wg.Wait()
}
