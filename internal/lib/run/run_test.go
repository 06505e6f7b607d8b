package run

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopEndsTheGoroutinesAndWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(t.Context(), slog.New(slog.DiscardHandler))
		var ended atomic.Int32
		for range 3 {
			g.Go("slow to go", func(ctx context.Context) {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended.Add(1)
			})
		}
		g.Go("done at once", func(context.Context) { ended.Add(1) })
		synctest.Wait()
		if n := ended.Load(); n != 1 || g.Context().Err() != nil {
			t.Fatalf("%d ended before they were asked to", n)
		}
		g.Stop()
		if n := ended.Load(); n != 4 {
			t.Fatalf("%d of 4 ended", n)
		}
		g.Stop() // once more does no harm
	})
}

func TestTheGoroutinesEndWithTheContextOfTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := NewGroup(ctx, slog.New(slog.DiscardHandler))
		ended := false
		g.Go("waiting", func(ctx context.Context) {
			<-ctx.Done()
			ended = true
		})
		cancel()
		synctest.Wait()
		if !ended {
			t.Fatal("it still runs")
		}
		g.Stop()
	})
}
