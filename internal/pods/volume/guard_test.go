package volume

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/pod"
)

func TestACallThatHangsBlocksOnlyItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(20 * time.Second)
		answer := make(chan struct{})
		calls := 0
		call := func(uid pod.UID, hang bool) (string, error) {
			return guarded(t.Context(), g, uid, func(_ context.Context, t *task) (string, error) {
				calls++
				t.setStep("look at /mnt/dead")
				if hang {
					<-answer
				}
				return "done", nil
			})
		}

		want := "look at /mnt/dead: not done since " + timestamp(time.Now())
		for i := range 2 { // and says the same each time
			_, err := call("a", true)
			var hung *HungError
			if !errors.As(err, &hung) || err.Error() != want {
				t.Errorf("try %d: %v, want %s", i, err, want)
			}
		}
		if got, err := call("b", false); got != "done" || err != nil {
			t.Error(got, err)
		}
		if calls != 2 {
			t.Error("a second call was made while the first one hung")
		}

		close(answer)
		if got, err := call("a", false); got != "done" || err != nil {
			t.Error(got, err)
		}
	})
}

func TestACallerThatGivesUpReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(time.Minute)
		answer := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := guarded(ctx, g, "a", func(ctx context.Context, t *task) (int, error) {
			t.setStep("chown")
			<-answer
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "chown: context deadline exceeded" {
			t.Error(err)
		}
		close(answer)
		synctest.Wait()
		if len(g.busy) > 0 {
			t.Error("it is remembered for ever")
		}
	})
}
