package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// sampleInterval is the time between two measurements. One takes about a tenth of a millisecond.
const sampleInterval = 2 * time.Second

// PressureMonitor measures how much is left of the machine's resources, and reports the
// resources that it runs out of.
type PressureMonitor struct {
	Thresholds       Thresholds
	TransitionPeriod time.Duration // how long there must have been enough again
	Sample           func(context.Context) (Available, error)
	OnChange         func(Pressure)
	// OnSample is called after each measurement with the resources that are short at this
	// moment, without regard to TransitionPeriod. May be nil.
	OnSample func(Pressure)
	Log      *slog.Logger
}

// Run measures until ctx ends.
func (g PressureMonitor) Run(ctx context.Context) {
	relief := Transition{After: g.TransitionPeriod}
	var shown Pressure
	for {
		left, err := g.Sample(ctx)
		if err != nil { // a resource that was not measured is not short
			g.Log.Debug("can't measure what is left of the machine", "err", err)
		}
		measured := g.Thresholds.Pressure(left)
		if g.OnSample != nil {
			g.OnSample(measured)
		}
		now := relief.Of(measured, time.Now())
		g.logTransitions(shown, now, left)
		g.OnChange(now)
		shown = now
		if !pause(ctx, sampleInterval, nil) {
			return
		}
	}
}

// logTransitions logs each pressure condition that became true or false.
func (g PressureMonitor) logTransitions(before, now Pressure, left Available) {
	for _, p := range pressures {
		switch {
		case p.of(now) && !p.of(before):
			g.Log.Warn(p.bad.message, "condition", p.kind, "left", fmt.Sprintf("%+v", left), "limits", fmt.Sprintf("%+v", g.Thresholds))
		case p.of(before) && !p.of(now):
			g.Log.Info(p.good.message+" again", "condition", p.kind, "left", fmt.Sprintf("%+v", left))
		}
	}
}
