package run

import (
	"context"
	"time"
)

// Sleep waits for d. If ctx ends first, it returns the error of ctx at once.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
