package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheMachineIsMeasuredAndPressureReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		var shown, measured atomic.Value
		log := &lineRecorder{}
		free.Store(50)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			PressureMonitor{
				Thresholds: Thresholds{Memory: Threshold{Percent: 10}}, TransitionPeriod: time.Minute, Log: slog.New(slog.NewTextHandler(log, nil)),
				Sample: func(context.Context) (Available, error) {
					return Available{Memory: Amount{free.Load(), 100}}, errors.New("no disk")
				},
				OnChange: func(p Pressure) { shown.Store(p) }, OnSample: func(p Pressure) { measured.Store(p) },
			}.Run(ctx)
		}()
		defer func() { cancel(); <-ended }()
		expect := func(when string, memory bool) {
			t.Helper()
			synctest.Wait()
			if got := shown.Load(); got != (Pressure{Memory: memory}) {
				t.Errorf("%s: %+v", when, got)
			}
		}
		expect("at first", false)
		free.Store(9)
		after(sampleInterval)
		expect("with little left", true)
		free.Store(10)
		after(time.Minute - sampleInterval)
		expect("with enough again", true)
		if measured.Load() != (Pressure{}) {
			t.Error("the pressure is still measured")
		}
		after(2 * sampleInterval)
		expect("a while later", false)
		if lines := log.take(); len(lines) != 2 {
			t.Errorf("logged %q", lines)
		}
	})
}
