package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// rereads calls Reload with a timeout.
func (b *bench) rereads(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), timeout)
	defer cancel()
	return b.Reload(ctx)
}

func TestWhatAWatchHasYetToShowCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.silent = true
		b, calls := startWatching(t, c)
		after(time.Minute)
		b.take()
		b.put(func(n *v1.Node) {
			n.ResourceVersion = "2000"
			n.Labels["disk"] = "fast"
		})
		after(time.Second)
		if b.Node().Labels["disk"] != "" {
			t.Fatal("the watch showed it: this shows nothing")
		}
		if err := b.rereads(time.Second); err != nil {
			t.Fatal(err)
		}
		if b.Node().Labels["disk"] != "fast" {
			t.Error("it was not taken in")
		}
		b.expect("for that", "get nodes")
		wantCalls(t, calls, "when it was read", "changed")
	})
}

func TestAServerThatFailsIsAskedForTheNodeUntilTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startReady(t, newCluster(t))
		b.fails(errors.New("not now"))
		began := time.Now()
		if err := b.rereads(5 * time.Second); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		time.AfterFunc(2*time.Second, func() { b.fails(nil) })
		if err := b.rereads(5 * time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestANodeThatWasMadeAnewIsReadOnceItIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.silent = true
		b, calls := startWatching(t, c)
		after(time.Minute)
		b.removeNode()
		if err := b.rereads(5 * time.Second); err != nil {
			t.Error(err)
		}
		wantCalls(t, calls, "when it was missed", "registered uid-2 true", "changed")
		if got := b.Node().UID; got != "uid-2" {
			t.Errorf("known is %s", got)
		}
	})
}

func TestANodeThatIsNotRegisteredCanNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.fails(errors.New("not now"))
		b := start(t, c, nil)
		if err := b.rereads(time.Second); err == nil {
			t.Error("it was read")
		}
	})
}
