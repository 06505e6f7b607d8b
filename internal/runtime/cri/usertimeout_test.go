package cri

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUsersDoNotWaitForARuntimeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		began := time.Now()
		_, err := WithUserTimeout(t.Context(), hangs)
		if time.Since(began) != userTimeout || err == nil || !strings.Contains(err.Error(), "container runtime has not answered for 20s") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		// who goes away, and a runtime that refuses, are something else
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := WithUserTimeout(gone, hangs); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "runtime") {
			t.Errorf("got %v", err)
		}
		refusal := errors.New("no such container")
		if _, err := WithUserTimeout(t.Context(), func(context.Context) (string, error) { return "", refusal }); err != refusal { //nolint:errorlint // it is to be that one
			t.Errorf("got %v", err)
		}
	})
}
