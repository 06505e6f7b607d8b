package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// measureEvery is how often it is measured what is left of the machine. It costs about
// a tenth of a millisecond.
const measureEvery = 2 * time.Second

// Gauge measures what is left of the machine, and tells what it runs out of.
type Gauge struct {
	Limits Limits
	Relief time.Duration // how long there must have been enough again
	Left   func(context.Context) (Left, error)
	Tell   func(Pressure)
	// Felt is told what is short at this moment, each time it is measured. May be nil.
	Felt func(Pressure)
	Log  *slog.Logger
}

// Run measures until ctx ends.
func (g Gauge) Run(ctx context.Context) {
	relief := Relief{After: g.Relief}
	var shown Pressure
	for {
		left, err := g.Left(ctx)
		if err != nil { // what was not measured does not press
			g.Log.Debug("can't measure what is left of the machine", "err", err)
		}
		felt := g.Limits.Pressure(left)
		if g.Felt != nil {
			g.Felt(felt)
		}
		now := relief.Of(felt, time.Now())
		g.say(shown, now, left)
		g.Tell(now)
		shown = now
		if !pause(ctx, measureEvery, nil) {
			return
		}
	}
}

// say logs what is another than before.
func (g Gauge) say(before, now Pressure, left Left) {
	for _, p := range pressures {
		switch {
		case p.of(now) && !p.of(before):
			g.Log.Warn(p.bad.message, "condition", p.kind, "left", fmt.Sprintf("%+v", left), "limits", fmt.Sprintf("%+v", g.Limits))
		case p.of(before) && !p.of(now):
			g.Log.Info(p.good.message+" again", "condition", p.kind, "left", fmt.Sprintf("%+v", left))
		}
	}
}
