package objects

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// CollectorConfig configures a Collector.
type CollectorConfig struct {
	Sources []string // the names of all sources that have objects, in order of precedence
	Set     func(context.Context, []runtime.Object)
	Log     *slog.Logger
}

// Collector puts the objects of several sources of manifests together. Each source sends
// all of its objects, at its start and after each change.
//
// The first sources wait for the others: before all have sent the objects of their state
// files, it is not known which volumes and claims there are. No source waits for a network
// before it does so.
type Collector struct {
	CollectorConfig
	complete chan struct{} // closed when all sources have sent their objects

	mu         sync.Mutex
	bySource   map[string][]runtime.Object
	duplicates map[ref]string // objects that two sources have: the name of the later source
}

// NewCollector checks the configuration.
func NewCollector(c CollectorConfig) (*Collector, error) {
	if c.Set == nil || c.Log == nil {
		return nil, errors.New("gather the objects of manifests: set and log are required")
	}
	return &Collector{CollectorConfig: c, complete: make(chan struct{}), bySource: map[string][]runtime.Object{}, duplicates: map[ref]string{}}, nil
}

// From returns the function that a source calls with all of its objects. The function
// returns when Set was called with them.
func (g *Collector) From(source string) func(context.Context, []runtime.Object) {
	return func(ctx context.Context, objects []runtime.Object) {
		if g.setSource(ctx, source, objects) {
			return
		}
		select {
		case <-g.complete:
		case <-ctx.Done():
		}
	}
}

// setSource replaces the objects of a source, and passes those of all sources to Set. It
// returns false if some source has not sent its objects yet.
func (g *Collector) setSource(ctx context.Context, source string, objects []runtime.Object) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bySource[source] = objects
	for _, name := range g.Sources {
		if _, sent := g.bySource[name]; !sent {
			return false
		}
	}
	g.Set(ctx, g.all())
	if !isClosed(g.complete) {
		close(g.complete)
	}
	return true
}

// all returns the objects of all sources. Of two objects of the same kind and name that of
// the earlier source counts.
func (g *Collector) all() []runtime.Object {
	var out []runtime.Object
	of := map[ref]string{}
	twice := map[ref]string{}
	for _, source := range g.Sources {
		for _, given := range g.bySource[source] {
			r, _ := localObject(given)
			if first, taken := of[r]; taken && first != source {
				twice[r] = source
				if g.duplicates[r] != source {
					g.Log.Warn("an object is in two sources: rename one of the two, or remove it", "object", r.String(), "used", first, "left out", source)
				}
				continue
			}
			of[r] = source
			out = append(out, given)
		}
	}
	for r := range g.duplicates {
		if _, still := twice[r]; !still {
			g.Log.Info("an object is no longer in two sources", "object", r.String())
		}
	}
	g.duplicates = twice
	return out
}
