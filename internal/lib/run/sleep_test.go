package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("slept for %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := Sleep(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("slept for %s: %v", time.Since(began), err)
		}
	})
}
